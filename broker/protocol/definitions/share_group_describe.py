"""ShareGroupDescribe: share groups, their members and assignments."""

DEFINITION = """
ShareGroupDescribe  key 77  versions 1  flexible 0+

ShareGroupDescribeRequest
  group_ids                      1+  []string
  include_authorized_operations  1+  bool

ShareGroupDescribeResponse
  throttle_time_ms               1+  int32
  groups                         1+  []DescribedGroup
    error_code                   1+  int16
    error_message                1+  string?  = null
    group_id                     1+  string
    group_state                  1+  string
    group_epoch                  1+  int32
    assignment_epoch             1+  int32
    assignor_name                1+  string
    members                      1+  []Member
      member_id                  1+  string
      rack_id                    1+  string?  = null
      member_epoch               1+  int32
      client_id                  1+  string
      client_host                1+  string
      subscribed_topic_names     1+  []string
      assignment                 1+  Assignment
        topic_partitions         1+  []TopicPartitions
          topic_id               1+  uuid
          topic_name             1+  string
          partitions             1+  []int32
    authorized_operations        1+  int32    = -2147483648
"""
