"""DeleteTopics: topics away, by name or by id."""

DEFINITION = """
DeleteTopics  key 20  versions 0-6  flexible 4+

DeleteTopicsRequest
  topics            6+   []DeleteTopicState
    name            6+   string?  = null
    topic_id        6+   uuid
  topic_names       0-5  []string
  timeout_ms        0+   int32

DeleteTopicsResponse
  throttle_time_ms  1+   int32
  responses         0+   []DeletableTopicResult
    name            0+   string?6+
    topic_id        6+   uuid
    error_code      0+   int16
    error_message   5+   string?  = null
"""
