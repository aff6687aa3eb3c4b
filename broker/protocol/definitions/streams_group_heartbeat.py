"""StreamsGroupHeartbeat: a member of a streams group is alive (KIP-1071)."""

DEFINITION = """
StreamsGroupHeartbeat  key 88  versions 0  flexible 0+

StreamsGroupHeartbeatRequest
  group_id                         0+  string
  member_id                        0+  string
  member_epoch                     0+  int32
  endpoint_information_epoch       0+  int32
  instance_id                      0+  string?                  = null
  rack_id                          0+  string?                  = null
  rebalance_timeout_ms             0+  int32                    = -1
  topology                         0+  Topology?                = null
    epoch                          0+  int32
    subtopologies                  0+  []Subtopology
      subtopology_id               0+  string
      source_topics                0+  []string
      source_topic_regex           0+  []string
      state_changelog_topics       0+  []TopicInfo
        name                       0+  string
        partitions                 0+  int32
        replication_factor         0+  int16
        topic_configs              0+  []KeyValue
          key                      0+  string
          value                    0+  string
      repartition_sink_topics      0+  []string
      repartition_source_topics    0+  []TopicInfo
      copartition_groups           0+  []CopartitionGroup
        source_topics              0+  []int16
        source_topic_regex         0+  []int16
        repartition_source_topics  0+  []int16
  active_tasks                     0+  []TaskIds?               = null
    subtopology_id                 0+  string
    partitions                     0+  []int32
  standby_tasks                    0+  []TaskIds?               = null
  warmup_tasks                     0+  []TaskIds?               = null
  process_id                       0+  string?                  = null
  user_endpoint                    0+  Endpoint?                = null
    host                           0+  string
    port                           0+  uint16
  client_tags                      0+  []KeyValue?              = null
  task_offsets                     0+  []TaskOffset?            = null
    subtopology_id                 0+  string
    partition                      0+  int32
    offset                         0+  int64
  task_end_offsets                 0+  []TaskOffset?            = null
  shutdown_application             0+  bool

StreamsGroupHeartbeatResponse
  throttle_time_ms                 0+  int32
  error_code                       0+  int16
  error_message                    0+  string?                  = null
  member_id                        0+  string
  member_epoch                     0+  int32
  heartbeat_interval_ms            0+  int32
  acceptable_recovery_lag          0+  int32
  task_offset_interval_ms          0+  int32
  status                           0+  []Status?
    status_code                    0+  int8
    status_detail                  0+  string
  active_tasks                     0+  []TaskIds?               = null
  standby_tasks                    0+  []TaskIds?               = null
  warmup_tasks                     0+  []TaskIds?               = null
  endpoint_information_epoch       0+  int32
  partitions_by_user_endpoint      0+  []EndpointToPartitions?  = null
    user_endpoint                  0+  Endpoint
    active_partitions              0+  []TopicPartition
      topic                        0+  string
      partitions                   0+  []int32
    standby_partitions             0+  []TopicPartition
"""
