"""IncrementalAlterConfigs: configurations, changed one by one."""

DEFINITION = """
IncrementalAlterConfigs  key 44  versions 0-1  flexible 1+

IncrementalAlterConfigsRequest
  resources             0+  []AlterConfigsResource
    resource_type       0+  int8
    resource_name       0+  string
    configs             0+  []AlterableConfig
      name              0+  string
      config_operation  0+  int8
      value             0+  string?
  validate_only         0+  bool

IncrementalAlterConfigsResponse
  throttle_time_ms      0+  int32
  responses             0+  []AlterConfigsResourceResponse
    error_code          0+  int16
    error_message       0+  string?
    resource_type       0+  int8
    resource_name       0+  string
"""
