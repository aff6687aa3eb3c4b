"""DescribeGroups: classic groups, their members and assignments."""

DEFINITION = """
DescribeGroups  key 15  versions 0-6  flexible 5+

DescribeGroupsRequest
  groups                         0+  []string
  include_authorized_operations  3+  bool

DescribeGroupsResponse
  throttle_time_ms               1+  int32
  groups                         0+  []DescribedGroup
    error_code                   0+  int16
    error_message                6+  string?  = null
    group_id                     0+  string
    group_state                  0+  string
    protocol_type                0+  string
    protocol_data                0+  string
    members                      0+  []DescribedGroupMember
      member_id                  0+  string
      group_instance_id          4+  string?  = null
      client_id                  0+  string
      client_host                0+  string
      member_metadata            0+  bytes
      member_assignment          0+  bytes
    authorized_operations        3+  int32    = -2147483648
"""
