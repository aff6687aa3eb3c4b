"""DescribeTopicPartitions: topics with their partitions, by pages."""

DEFINITION = """
DescribeTopicPartitions  key 75  versions 0  flexible 0+

DescribeTopicPartitionsRequest
  topics                         0+  []TopicRequest
    name                         0+  string
  response_partition_limit       0+  int32     = 2000
  cursor                         0+  Cursor?   = null
    topic_name                   0+  string
    partition_index              0+  int32

DescribeTopicPartitionsResponse
  throttle_time_ms               0+  int32
  topics                         0+  []DescribeTopicPartitionsResponseTopic
    error_code                   0+  int16
    name                         0+  string?
    topic_id                     0+  uuid
    is_internal                  0+  bool
    partitions                   0+  []DescribeTopicPartitionsResponsePartition
      error_code                 0+  int16
      partition_index            0+  int32
      leader_id                  0+  int32
      leader_epoch               0+  int32     = -1
      replica_nodes              0+  []int32
      isr_nodes                  0+  []int32
      eligible_leader_replicas   0+  []int32?  = null
      last_known_elr             0+  []int32?  = null
      offline_replicas           0+  []int32
    topic_authorized_operations  0+  int32     = -2147483648
  next_cursor                    0+  Cursor?   = null
"""
