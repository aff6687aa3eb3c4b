"""AddOffsetsToTxn: the offsets of a group join a transaction."""

DEFINITION = """
AddOffsetsToTxn  key 25  versions 0-4  flexible 3+

AddOffsetsToTxnRequest
  transactional_id  0+  string
  producer_id       0+  int64
  producer_epoch    0+  int16
  group_id          0+  string

AddOffsetsToTxnResponse
  throttle_time_ms  0+  int32
  error_code        0+  int16
"""
