"""AlterConfigs: configurations, replaced as a whole."""

DEFINITION = """
AlterConfigs  key 33  versions 0-2  flexible 2+

AlterConfigsRequest
  resources         0+  []AlterConfigsResource
    resource_type   0+  int8
    resource_name   0+  string
    configs         0+  []AlterableConfig
      name          0+  string
      value         0+  string?
  validate_only     0+  bool

AlterConfigsResponse
  throttle_time_ms  0+  int32
  responses         0+  []AlterConfigsResourceResponse
    error_code      0+  int16
    error_message   0+  string?
    resource_type   0+  int8
    resource_name   0+  string
"""
