"""DescribeTransactions: the state of transactions."""

DEFINITION = """
DescribeTransactions  key 65  versions 0  flexible 0+

DescribeTransactionsRequest
  transactional_ids            0+  []string

DescribeTransactionsResponse
  throttle_time_ms             0+  int32
  transaction_states           0+  []TransactionState
    error_code                 0+  int16
    transactional_id           0+  string
    transaction_state          0+  string
    transaction_timeout_ms     0+  int32
    transaction_start_time_ms  0+  int64
    producer_id                0+  int64
    producer_epoch             0+  int16
    topics                     0+  []TopicData
      topic                    0+  string
      partitions               0+  []int32
"""
