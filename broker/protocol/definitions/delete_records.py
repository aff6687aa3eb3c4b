"""DeleteRecords: records below an offset away."""

DEFINITION = """
DeleteRecords  key 21  versions 0-2  flexible 2+

DeleteRecordsRequest
  topics               0+  []DeleteRecordsTopic
    name               0+  string
    partitions         0+  []DeleteRecordsPartition
      partition_index  0+  int32
      offset           0+  int64
  timeout_ms           0+  int32

DeleteRecordsResponse
  throttle_time_ms     0+  int32
  topics               0+  []DeleteRecordsTopicResult
    name               0+  string
    partitions         0+  []DeleteRecordsPartitionResult
      partition_index  0+  int32
      low_watermark    0+  int64
      error_code       0+  int16
"""
