"""CreateAcls: access rules, new."""

DEFINITION = """
CreateAcls  key 30  versions 0-3  flexible 2+

CreateAclsRequest
  creations                0+  []AclCreation
    resource_type          0+  int8
    resource_name          0+  string
    resource_pattern_type  1+  int8  = 3
    principal              0+  string
    host                   0+  string
    operation              0+  int8
    permission_type        0+  int8

CreateAclsResponse
  throttle_time_ms         0+  int32
  results                  0+  []AclCreationResult
    error_code             0+  int16
    error_message          0+  string?
"""
