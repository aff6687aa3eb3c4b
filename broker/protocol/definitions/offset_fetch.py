"""OffsetFetch: where a group stands, read."""

DEFINITION = """
OffsetFetch  key 9  versions 0-10  flexible 6+

OffsetFetchRequest
  group_id                      0-7  string
  topics                        0-7  []OffsetFetchRequestTopic?2-7
    name                        0-7  string
    partition_indexes           0-7  []int32
  groups                        8+   []OffsetFetchRequestGroup
    group_id                    8+   string
    member_id                   9+   string?  = null
    member_epoch                9+   int32    = -1
    topics                      8+   []OffsetFetchRequestTopics?
      name                      8-9  string
      topic_id                  10+  uuid
      partition_indexes         8+   []int32
  require_stable                7+   bool

OffsetFetchResponse
  throttle_time_ms              3+   int32
  topics                        0-7  []OffsetFetchResponseTopic
    name                        0-7  string
    partitions                  0-7  []OffsetFetchResponsePartition
      partition_index           0-7  int32
      committed_offset          0-7  int64
      committed_leader_epoch    5-7  int32    = -1
      metadata                  0-7  string?
      error_code                0-7  int16
  error_code                    2-7  int16
  groups                        8+   []OffsetFetchResponseGroup
    group_id                    8+   string
    topics                      8+   []OffsetFetchResponseTopics
      name                      8-9  string
      topic_id                  10+  uuid
      partitions                8+   []OffsetFetchResponsePartitions
        partition_index         8+   int32
        committed_offset        8+   int64
        committed_leader_epoch  8+   int32    = -1
        metadata                8+   string?
        error_code              8+   int16
    error_code                  8+   int16
"""
