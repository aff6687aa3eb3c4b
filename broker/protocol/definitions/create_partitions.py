"""CreatePartitions: more partitions for a topic."""

DEFINITION = """
CreatePartitions  key 37  versions 0-3  flexible 2+

CreatePartitionsRequest
  topics            0+  []CreatePartitionsTopic
    name            0+  string
    count           0+  int32
    assignments     0+  []CreatePartitionsAssignment?
      broker_ids    0+  []int32
  timeout_ms        0+  int32
  validate_only     0+  bool

CreatePartitionsResponse
  throttle_time_ms  0+  int32
  results           0+  []CreatePartitionsTopicResult
    name            0+  string
    error_code      0+  int16
    error_message   0+  string?  = null
"""
