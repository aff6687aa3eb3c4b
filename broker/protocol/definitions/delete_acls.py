"""DeleteAcls: access rules, away."""

DEFINITION = """
DeleteAcls  key 31  versions 0-3  flexible 2+

DeleteAclsRequest
  filters                 0+  []DeleteAclsFilter
    resource_type_filter  0+  int8
    resource_name_filter  0+  string?
    pattern_type_filter   1+  int8  = 3
    principal_filter      0+  string?
    host_filter           0+  string?
    operation             0+  int8
    permission_type       0+  int8

DeleteAclsResponse
  throttle_time_ms        0+  int32
  filter_results          0+  []DeleteAclsFilterResult
    error_code            0+  int16
    error_message         0+  string?
    matching_acls         0+  []DeleteAclsMatchingAcl
      error_code          0+  int16
      error_message       0+  string?
      resource_type       0+  int8
      resource_name       0+  string
      pattern_type        1+  int8  = 3
      principal           0+  string
      host                0+  string
      operation           0+  int8
      permission_type     0+  int8
"""
