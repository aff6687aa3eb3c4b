"""DeleteGroups: groups away."""

DEFINITION = """
DeleteGroups  key 42  versions 0-2  flexible 2+

DeleteGroupsRequest
  groups_names      0+  []string

DeleteGroupsResponse
  throttle_time_ms  0+  int32
  results           0+  []DeletableGroupResult
    group_id        0+  string
    error_code      0+  int16
"""
