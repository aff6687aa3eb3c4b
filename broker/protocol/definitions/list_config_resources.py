"""ListConfigResources: resources that have configurations."""

DEFINITION = """
ListConfigResources  key 74  versions 0-1  flexible 0+

ListConfigResourcesRequest
  resource_types    1+  []int8

ListConfigResourcesResponse
  throttle_time_ms  0+  int32
  error_code        0+  int16
  config_resources  0+  []ConfigResource
    resource_name   0+  string
    resource_type   1+  int8  = 16
"""
