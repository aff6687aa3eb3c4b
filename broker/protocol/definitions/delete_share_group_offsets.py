"""DeleteShareGroupOffsets: the offsets of a share group away."""

DEFINITION = """
DeleteShareGroupOffsets  key 92  versions 0  flexible 0+

DeleteShareGroupOffsetsRequest
  group_id          0+  string
  topics            0+  []DeleteShareGroupOffsetsRequestTopic
    topic_name      0+  string

DeleteShareGroupOffsetsResponse
  throttle_time_ms  0+  int32
  error_code        0+  int16
  error_message     0+  string?  = null
  responses         0+  []DeleteShareGroupOffsetsResponseTopic
    topic_name      0+  string
    topic_id        0+  uuid
    error_code      0+  int16
    error_message   0+  string?  = null
"""
