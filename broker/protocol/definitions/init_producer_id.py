"""InitProducerId: a producer id and epoch, for idempotence and transactions."""

DEFINITION = """
InitProducerId  key 22  versions 0-6  flexible 2+

InitProducerIdRequest
  transactional_id            0+  string?
  transaction_timeout_ms      0+  int32
  producer_id                 3+  int64  = -1
  producer_epoch              3+  int16  = -1
  enable2_pc                  6+  bool
  keep_prepared_txn           6+  bool

InitProducerIdResponse
  throttle_time_ms            0+  int32
  error_code                  0+  int16
  producer_id                 0+  int64  = -1
  producer_epoch              0+  int16
  ongoing_txn_producer_id     6+  int64  = -1
  ongoing_txn_producer_epoch  6+  int16  = -1
"""
