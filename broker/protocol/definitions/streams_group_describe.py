"""StreamsGroupDescribe: streams groups, their topology, members and tasks."""

DEFINITION = """
StreamsGroupDescribe  key 89  versions 0  flexible 0+

StreamsGroupDescribeRequest
  group_ids                        0+  []string
  include_authorized_operations    0+  bool

StreamsGroupDescribeResponse
  throttle_time_ms                 0+  int32
  groups                           0+  []DescribedGroup
    error_code                     0+  int16
    error_message                  0+  string?         = null
    group_id                       0+  string
    group_state                    0+  string
    group_epoch                    0+  int32
    assignment_epoch               0+  int32
    topology                       0+  Topology?       = null
      epoch                        0+  int32
      subtopologies                0+  []Subtopology?  = null
        subtopology_id             0+  string
        source_topics              0+  []string
        repartition_sink_topics    0+  []string
        state_changelog_topics     0+  []TopicInfo
          name                     0+  string
          partitions               0+  int32
          replication_factor       0+  int16
          topic_configs            0+  []KeyValue
            key                    0+  string
            value                  0+  string
        repartition_source_topics  0+  []TopicInfo
    members                        0+  []Member
      member_id                    0+  string
      member_epoch                 0+  int32
      instance_id                  0+  string?         = null
      rack_id                      0+  string?         = null
      client_id                    0+  string
      client_host                  0+  string
      topology_epoch               0+  int32
      process_id                   0+  string
      user_endpoint                0+  Endpoint?       = null
        host                       0+  string
        port                       0+  uint16
      client_tags                  0+  []KeyValue
      task_offsets                 0+  []TaskOffset
        subtopology_id             0+  string
        partition                  0+  int32
        offset                     0+  int64
      task_end_offsets             0+  []TaskOffset
      assignment                   0+  Assignment
        active_tasks               0+  []TaskIds
          subtopology_id           0+  string
          partitions               0+  []int32
        standby_tasks              0+  []TaskIds
        warmup_tasks               0+  []TaskIds
      target_assignment            0+  Assignment
      is_classic                   0+  bool
    authorized_operations          0+  int32           = -2147483648
"""
