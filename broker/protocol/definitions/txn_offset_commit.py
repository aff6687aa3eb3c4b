"""TxnOffsetCommit: offsets committed inside a transaction."""

DEFINITION = """
TxnOffsetCommit  key 28  versions 0-5  flexible 3+

TxnOffsetCommitRequest
  transactional_id            0+  string
  group_id                    0+  string
  producer_id                 0+  int64
  producer_epoch              0+  int16
  generation_id               3+  int32    = -1
  member_id                   3+  string
  group_instance_id           3+  string?  = null
  topics                      0+  []TxnOffsetCommitRequestTopic
    name                      0+  string
    partitions                0+  []TxnOffsetCommitRequestPartition
      partition_index         0+  int32
      committed_offset        0+  int64
      committed_leader_epoch  2+  int32    = -1
      committed_metadata      0+  string?

TxnOffsetCommitResponse
  throttle_time_ms            0+  int32
  topics                      0+  []TxnOffsetCommitResponseTopic
    name                      0+  string
    partitions                0+  []TxnOffsetCommitResponsePartition
      partition_index         0+  int32
      error_code              0+  int16
"""
