"""DescribeLogDirs: directories and the sizes of what they hold."""

DEFINITION = """
DescribeLogDirs  key 35  versions 0-5  flexible 2+

DescribeLogDirsRequest
  topics                 0+  []DescribableLogDirTopic?
    topic                0+  string
    partitions           0+  []int32

DescribeLogDirsResponse
  throttle_time_ms       0+  int32
  error_code             3+  int16
  results                0+  []DescribeLogDirsResult
    error_code           0+  int16
    log_dir              0+  string
    topics               0+  []DescribeLogDirsTopic
      name               0+  string
      partitions         0+  []DescribeLogDirsPartition
        partition_index  0+  int32
        partition_size   0+  int64
        offset_lag       0+  int64
        is_future_key    0+  bool
    total_bytes          4+  int64  = -1
    usable_bytes         4+  int64  = -1
    is_cordoned          5+  bool
"""
