"""DescribeProducers: producers that are active on partitions."""

DEFINITION = """
DescribeProducers  key 61  versions 0  flexible 0+

DescribeProducersRequest
  topics                          0+  []TopicRequest
    name                          0+  string
    partition_indexes             0+  []int32

DescribeProducersResponse
  throttle_time_ms                0+  int32
  topics                          0+  []TopicResponse
    name                          0+  string
    partitions                    0+  []PartitionResponse
      partition_index             0+  int32
      error_code                  0+  int16
      error_message               0+  string?  = null
      active_producers            0+  []ProducerState
        producer_id               0+  int64
        producer_epoch            0+  int32
        last_sequence             0+  int32    = -1
        last_timestamp            0+  int64    = -1
        coordinator_epoch         0+  int32
        current_txn_start_offset  0+  int64    = -1
"""
