"""Produce: record batches into partitions."""

DEFINITION = """
Produce  key 0  versions 0-13  flexible 9+

ProduceRequest
  transactional_id                 3+    string?           = null
  acks                             0+    int16
  timeout_ms                       0+    int32
  topic_data                       0+    []TopicProduceData
    name                           0-12  string
    topic_id                       13+   uuid
    partition_data                 0+    []PartitionProduceData
      index                        0+    int32
      records                      0+    records?

ProduceResponse
  responses                        0+    []TopicProduceResponse
    name                           0-12  string
    topic_id                       13+   uuid
    partition_responses            0+    []PartitionProduceResponse
      index                        0+    int32
      error_code                   0+    int16
      base_offset                  0+    int64
      log_append_time_ms           2+    int64             = -1
      log_start_offset             5+    int64             = -1
      record_errors                8+    []BatchIndexAndErrorMessage
        batch_index                8+    int32
        batch_index_error_message  8+    string?           = null
      error_message                8+    string?           = null
      current_leader               10+   LeaderIdAndEpoch  tag 0
        leader_id                  10+   int32             = -1
        leader_epoch               10+   int32             = -1
  throttle_time_ms                 1+    int32
  node_endpoints                   10+   []NodeEndpoint    tag 0
    node_id                        10+   int32
    host                           10+   string
    port                           10+   int32
    rack                           10+   string?           = null
"""
