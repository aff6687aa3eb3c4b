"""AddPartitionsToTxn: partitions join a transaction."""

DEFINITION = """
AddPartitionsToTxn  key 24  versions 0-5  flexible 3+

AddPartitionsToTxnRequest
  transactions                   4+   []AddPartitionsToTxnTransaction
    transactional_id             4+   string
    producer_id                  4+   int64
    producer_epoch               4+   int16
    verify_only                  4+   bool
    topics                       4+   []AddPartitionsToTxnTopic
      name                       0+   string
      partitions                 0+   []int32
  v3_and_below_transactional_id  0-3  string
  v3_and_below_producer_id       0-3  int64
  v3_and_below_producer_epoch    0-3  int16
  v3_and_below_topics            0-3  []AddPartitionsToTxnTopic

AddPartitionsToTxnResponse
  throttle_time_ms               0+   int32
  error_code                     4+   int16
  results_by_transaction         4+   []AddPartitionsToTxnResult
    transactional_id             4+   string
    topic_results                4+   []AddPartitionsToTxnTopicResult
      name                       0+   string
      results_by_partition       0+   []AddPartitionsToTxnPartitionResult
        partition_index          0+   int32
        partition_error_code     0+   int16
  results_by_topic_v3_and_below  0-3  []AddPartitionsToTxnTopicResult
"""
