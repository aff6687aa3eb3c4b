"""OffsetDelete: committed offsets of a group away."""

DEFINITION = """
OffsetDelete  key 47  versions 0  flexible none

OffsetDeleteRequest
  group_id             0+  string
  topics               0+  []OffsetDeleteRequestTopic
    name               0+  string
    partitions         0+  []OffsetDeleteRequestPartition
      partition_index  0+  int32

OffsetDeleteResponse
  error_code           0+  int16
  throttle_time_ms     0+  int32
  topics               0+  []OffsetDeleteResponseTopic
    name               0+  string
    partitions         0+  []OffsetDeleteResponsePartition
      partition_index  0+  int32
      error_code       0+  int16
"""
