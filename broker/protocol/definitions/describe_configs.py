"""DescribeConfigs: configurations with their sources and documentation."""

DEFINITION = """
DescribeConfigs  key 32  versions 0-4  flexible 4+

DescribeConfigsRequest
  resources              0+  []DescribeConfigsResource
    resource_type        0+  int8
    resource_name        0+  string
    configuration_keys   0+  []string?
  include_synonyms       1+  bool
  include_documentation  3+  bool

DescribeConfigsResponse
  throttle_time_ms       0+  int32
  results                0+  []DescribeConfigsResult
    error_code           0+  int16
    error_message        0+  string?
    resource_type        0+  int8
    resource_name        0+  string
    configs              0+  []DescribeConfigsResourceResult
      name               0+  string
      value              0+  string?
      read_only          0+  bool
      config_source      1+  int8  = -1
      is_default         0   bool
      is_sensitive       0+  bool
      synonyms           1+  []DescribeConfigsSynonym
        name             1+  string
        value            1+  string?
        source           1+  int8
      config_type        3+  int8
      documentation      3+  string?
"""
