"""ConsumerGroupDescribe: consumer groups of KIP-848, their members and assignments."""

DEFINITION = """
ConsumerGroupDescribe  key 69  versions 0-1  flexible 0+

ConsumerGroupDescribeRequest
  group_ids                      0+  []string
  include_authorized_operations  0+  bool

ConsumerGroupDescribeResponse
  throttle_time_ms               0+  int32
  groups                         0+  []DescribedGroup
    error_code                   0+  int16
    error_message                0+  string?  = null
    group_id                     0+  string
    group_state                  0+  string
    group_epoch                  0+  int32
    assignment_epoch             0+  int32
    assignor_name                0+  string
    members                      0+  []Member
      member_id                  0+  string
      instance_id                0+  string?  = null
      rack_id                    0+  string?  = null
      member_epoch               0+  int32
      client_id                  0+  string
      client_host                0+  string
      subscribed_topic_names     0+  []string
      subscribed_topic_regex     0+  string?  = null
      assignment                 0+  Assignment
        topic_partitions         0+  []TopicPartitions
          topic_id               0+  uuid
          topic_name             0+  string
          partitions             0+  []int32
      target_assignment          0+  Assignment
      member_type                1+  int8     = -1
    authorized_operations        0+  int32    = -2147483648
"""
