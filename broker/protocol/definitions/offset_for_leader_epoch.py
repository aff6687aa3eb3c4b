"""OffsetForLeaderEpoch: where a leader epoch ended."""

DEFINITION = """
OffsetForLeaderEpoch  key 23  versions 0-4  flexible 4+

OffsetForLeaderEpochRequest
  replica_id                3+  int32  = -2
  topics                    0+  []OffsetForLeaderTopic
    topic                   0+  string
    partitions              0+  []OffsetForLeaderPartition
      partition             0+  int32
      current_leader_epoch  2+  int32  = -1
      leader_epoch          0+  int32

OffsetForLeaderEpochResponse
  throttle_time_ms          2+  int32
  topics                    0+  []OffsetForLeaderTopicResult
    topic                   0+  string
    partitions              0+  []EpochEndOffset
      error_code            0+  int16
      partition             0+  int32
      leader_epoch          1+  int32  = -1
      end_offset            0+  int64  = -1
"""
