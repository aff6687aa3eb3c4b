"""UpdateFeatures: finalized features, changed."""

DEFINITION = """
UpdateFeatures  key 57  versions 0-2  flexible 0+

UpdateFeaturesRequest
  timeout_ms           0+   int32  = 60000
  feature_updates      0+   []FeatureUpdateKey
    feature            0+   string
    max_version_level  0+   int16
    allow_downgrade    0    bool
    upgrade_type       1+   int8   = 1
  validate_only        1+   bool

UpdateFeaturesResponse
  throttle_time_ms     0+   int32
  error_code           0+   int16
  error_message        0+   string?
  results              0-1  []UpdatableFeatureResult
    feature            0-1  string
    error_code         0-1  int16
    error_message      0-1  string?
"""
