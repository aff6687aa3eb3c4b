"""ConsumerGroupHeartbeat: all of a member of the new consumer groups (KIP-848)."""

DEFINITION = """
ConsumerGroupHeartbeat  key 68  versions 0-1  flexible 0+

ConsumerGroupHeartbeatRequest
  group_id                0+  string
  member_id               0+  string
  member_epoch            0+  int32
  instance_id             0+  string?             = null
  rack_id                 0+  string?             = null
  rebalance_timeout_ms    0+  int32               = -1
  subscribed_topic_names  0+  []string?           = null
  subscribed_topic_regex  1+  string?             = null
  server_assignor         0+  string?             = null
  topic_partitions        0+  []TopicPartitions?  = null
    topic_id              0+  uuid
    partitions            0+  []int32

ConsumerGroupHeartbeatResponse
  throttle_time_ms        0+  int32
  error_code              0+  int16
  error_message           0+  string?             = null
  member_id               0+  string?             = null
  member_epoch            0+  int32
  heartbeat_interval_ms   0+  int32
  assignment              0+  Assignment?         = null
    topic_partitions      0+  []TopicPartitions
"""
