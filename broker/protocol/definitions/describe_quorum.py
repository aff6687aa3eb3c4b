"""DescribeQuorum: the state of the metadata quorum."""

DEFINITION = """
DescribeQuorum  key 55  versions 0-2  flexible 0+

DescribeQuorumRequest
  topics                          0+  []TopicData
    topic_name                    0+  string
    partitions                    0+  []PartitionData
      partition_index             0+  int32

DescribeQuorumResponse
  error_code                      0+  int16
  error_message                   2+  string?
  topics                          0+  []TopicDataResponse
    topic_name                    0+  string
    partitions                    0+  []PartitionDataResponse
      partition_index             0+  int32
      error_code                  0+  int16
      error_message               2+  string?
      leader_id                   0+  int32
      leader_epoch                0+  int32
      high_watermark              0+  int64
      current_voters              0+  []ReplicaState
        replica_id                0+  int32
        replica_directory_id      2+  uuid
        log_end_offset            0+  int64
        last_fetch_timestamp      1+  int64  = -1
        last_caught_up_timestamp  1+  int64  = -1
      observers                   0+  []ReplicaState
  nodes                           2+  []Node
    node_id                       2+  int32
    listeners                     2+  []Listener
      name                        2+  string
      host                        2+  string
      port                        2+  uint16
"""
