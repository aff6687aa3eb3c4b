"""DescribeShareGroupOffsets: where a share group stands."""

DEFINITION = """
DescribeShareGroupOffsets  key 90  versions 0-1  flexible 0+

DescribeShareGroupOffsetsRequest
  groups                 0+  []DescribeShareGroupOffsetsRequestGroup
    group_id             0+  string
    topics               0+  []DescribeShareGroupOffsetsRequestTopic?
      topic_name         0+  string
      partitions         0+  []int32

DescribeShareGroupOffsetsResponse
  throttle_time_ms       0+  int32
  groups                 0+  []DescribeShareGroupOffsetsResponseGroup
    group_id             0+  string
    topics               0+  []DescribeShareGroupOffsetsResponseTopic
      topic_name         0+  string
      topic_id           0+  uuid
      partitions         0+  []DescribeShareGroupOffsetsResponsePartition
        partition_index  0+  int32
        start_offset     0+  int64
        leader_epoch     0+  int32
        lag              1+  int64    = -1
        error_code       0+  int16
        error_message    0+  string?  = null
    error_code           0+  int16
    error_message        0+  string?  = null
"""
