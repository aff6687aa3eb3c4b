"""AlterShareGroupOffsets: where a share group stands, changed."""

DEFINITION = """
AlterShareGroupOffsets  key 91  versions 0  flexible 0+

AlterShareGroupOffsetsRequest
  group_id             0+  string
  topics               0+  []AlterShareGroupOffsetsRequestTopic
    topic_name         0+  string
    partitions         0+  []AlterShareGroupOffsetsRequestPartition
      partition_index  0+  int32
      start_offset     0+  int64

AlterShareGroupOffsetsResponse
  throttle_time_ms     0+  int32
  error_code           0+  int16
  error_message        0+  string?  = null
  responses            0+  []AlterShareGroupOffsetsResponseTopic
    topic_name         0+  string
    topic_id           0+  uuid
    partitions         0+  []AlterShareGroupOffsetsResponsePartition
      partition_index  0+  int32
      error_code       0+  int16
      error_message    0+  string?  = null
"""
