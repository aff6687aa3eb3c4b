"""CreateTopics: new topics."""

DEFINITION = """
CreateTopics  key 19  versions 0-7  flexible 5+

CreateTopicsRequest
  topics                     0+  []CreatableTopic
    name                     0+  string
    num_partitions           0+  int32
    replication_factor       0+  int16
    assignments              0+  []CreatableReplicaAssignment
      partition_index        0+  int32
      broker_ids             0+  []int32
    configs                  0+  []CreatableTopicConfig
      name                   0+  string
      value                  0+  string?
  timeout_ms                 0+  int32  = 60000
  validate_only              1+  bool

CreateTopicsResponse
  throttle_time_ms           2+  int32
  topics                     0+  []CreatableTopicResult
    name                     0+  string
    topic_id                 7+  uuid
    error_code               0+  int16
    error_message            1+  string?
    topic_config_error_code  5+  int16  tag 0
    num_partitions           5+  int32  = -1
    replication_factor       5+  int16  = -1
    configs                  5+  []CreatableTopicConfigs?
      name                   5+  string
      value                  5+  string?
      read_only              5+  bool
      config_source          5+  int8   = -1
      is_sensitive           5+  bool
"""
