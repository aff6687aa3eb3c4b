"""ListGroups: the groups of a broker."""

DEFINITION = """
ListGroups  key 16  versions 0-5  flexible 3+

ListGroupsRequest
  states_filter     4+  []string
  types_filter      5+  []string

ListGroupsResponse
  throttle_time_ms  1+  int32
  error_code        0+  int16
  groups            0+  []ListedGroup
    group_id        0+  string
    protocol_type   0+  string
    group_state     4+  string
    group_type      5+  string
"""
