"""DescribeAcls: access rules, read."""

DEFINITION = """
DescribeAcls  key 29  versions 0-3  flexible 2+

DescribeAclsRequest
  resource_type_filter  0+  int8
  resource_name_filter  0+  string?
  pattern_type_filter   1+  int8  = 3
  principal_filter      0+  string?
  host_filter           0+  string?
  operation             0+  int8
  permission_type       0+  int8

DescribeAclsResponse
  throttle_time_ms      0+  int32
  error_code            0+  int16
  error_message         0+  string?
  resources             0+  []DescribeAclsResource
    resource_type       0+  int8
    resource_name       0+  string
    pattern_type        1+  int8  = 3
    acls                0+  []AclDescription
      principal         0+  string
      host              0+  string
      operation         0+  int8
      permission_type   0+  int8
"""
