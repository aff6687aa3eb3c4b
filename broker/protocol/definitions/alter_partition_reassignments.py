"""AlterPartitionReassignments: replicas of partitions, reassigned."""

DEFINITION = """
AlterPartitionReassignments  key 45  versions 0-1  flexible 0+

AlterPartitionReassignmentsRequest
  timeout_ms                       0+  int32     = 60000
  allow_replication_factor_change  1+  bool      = true
  topics                           0+  []ReassignableTopic
    name                           0+  string
    partitions                     0+  []ReassignablePartition
      partition_index              0+  int32
      replicas                     0+  []int32?  = null

AlterPartitionReassignmentsResponse
  throttle_time_ms                 0+  int32
  allow_replication_factor_change  1+  bool      = true
  error_code                       0+  int16
  error_message                    0+  string?
  responses                        0+  []ReassignableTopicResponse
    name                           0+  string
    partitions                     0+  []ReassignablePartitionResponse
      partition_index              0+  int32
      error_code                   0+  int16
      error_message                0+  string?
"""
