"""OffsetCommit: where a group stands, written."""

DEFINITION = """
OffsetCommit  key 8  versions 0-10  flexible 8+

OffsetCommitRequest
  group_id                       0+   string
  generation_id_or_member_epoch  1+   int32    = -1
  member_id                      1+   string
  group_instance_id              7+   string?  = null
  retention_time_ms              2-4  int64    = -1
  topics                         0+   []OffsetCommitRequestTopic
    name                         0-9  string
    topic_id                     10+  uuid
    partitions                   0+   []OffsetCommitRequestPartition
      partition_index            0+   int32
      committed_offset           0+   int64
      committed_leader_epoch     6+   int32    = -1
      commit_timestamp           1    int64    = -1
      committed_metadata         0+   string?

OffsetCommitResponse
  throttle_time_ms               3+   int32
  topics                         0+   []OffsetCommitResponseTopic
    name                         0-9  string
    topic_id                     10+  uuid
    partitions                   0+   []OffsetCommitResponsePartition
      partition_index            0+   int32
      error_code                 0+   int16
"""
