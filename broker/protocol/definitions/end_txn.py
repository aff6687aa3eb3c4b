"""EndTxn: a transaction is committed or aborted."""

DEFINITION = """
EndTxn  key 26  versions 0-5  flexible 3+

EndTxnRequest
  transactional_id  0+  string
  producer_id       0+  int64
  producer_epoch    0+  int16
  committed         0+  bool

EndTxnResponse
  throttle_time_ms  0+  int32
  error_code        0+  int16
  producer_id       5+  int64  = -1
  producer_epoch    5+  int16  = -1
"""
