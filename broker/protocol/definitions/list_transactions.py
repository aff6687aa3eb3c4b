"""ListTransactions: transactions of a coordinator."""

DEFINITION = """
ListTransactions  key 66  versions 0-2  flexible 0+

ListTransactionsRequest
  state_filters             0+  []string
  producer_id_filters       0+  []int64
  duration_filter           1+  int64    = -1
  transactional_id_pattern  2+  string?  = null

ListTransactionsResponse
  throttle_time_ms          0+  int32
  error_code                0+  int16
  unknown_state_filters     0+  []string
  transaction_states        0+  []TransactionState
    transactional_id        0+  string
    producer_id             0+  int64
    transaction_state       0+  string
"""
