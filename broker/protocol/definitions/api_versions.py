"""ApiVersions: what a broker speaks, and its features."""

DEFINITION = """
ApiVersions  key 18  versions 0-4  flexible 3+

ApiVersionsRequest
  client_software_name      3+  string
  client_software_version   3+  string

ApiVersionsResponse
  error_code                0+  int16
  api_keys                  0+  []ApiVersion
    api_key                 0+  int16
    min_version             0+  int16
    max_version             0+  int16
  throttle_time_ms          1+  int32
  supported_features        3+  []SupportedFeatureKey  tag 0
    name                    3+  string
    min_version             3+  int16
    max_version             3+  int16
  finalized_features_epoch  3+  int64                  = -1  tag 1
  finalized_features        3+  []FinalizedFeatureKey  tag 2
    name                    3+  string
    max_version_level       3+  int16
    min_version_level       3+  int16
  zk_migration_ready        3+  bool                   tag 3
"""
