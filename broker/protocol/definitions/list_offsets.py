"""ListOffsets: the offset that stands at a timestamp, or at an end."""

DEFINITION = """
ListOffsets  key 2  versions 0-11  flexible 6+

ListOffsetsRequest
  replica_id                0+   int32
  isolation_level           2+   int8
  topics                    0+   []ListOffsetsTopic
    name                    0+   string
    partitions              0+   []ListOffsetsPartition
      partition_index       0+   int32
      current_leader_epoch  4+   int32  = -1
      timestamp             0+   int64
      max_num_offsets       0    int32  = 1
  timeout_ms                10+  int32

ListOffsetsResponse
  throttle_time_ms          2+   int32
  topics                    0+   []ListOffsetsTopicResponse
    name                    0+   string
    partitions              0+   []ListOffsetsPartitionResponse
      partition_index       0+   int32
      error_code            0+   int16
      old_style_offsets     0    []int64
      timestamp             1+   int64  = -1
      offset                1+   int64  = -1
      leader_epoch          4+   int32  = -1
"""
