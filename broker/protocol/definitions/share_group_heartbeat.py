"""ShareGroupHeartbeat: a member of a share group is alive (KIP-932)."""

DEFINITION = """
ShareGroupHeartbeat  key 76  versions 1  flexible 0+

ShareGroupHeartbeatRequest
  group_id                1+  string
  member_id               1+  string
  member_epoch            1+  int32
  rack_id                 1+  string?      = null
  subscribed_topic_names  1+  []string?    = null

ShareGroupHeartbeatResponse
  throttle_time_ms        1+  int32
  error_code              1+  int16
  error_message           1+  string?      = null
  member_id               1+  string?      = null
  member_epoch            1+  int32
  heartbeat_interval_ms   1+  int32
  assignment              1+  Assignment?  = null
    topic_partitions      1+  []TopicPartitions
      topic_id            1+  uuid
      partitions          1+  []int32
"""
