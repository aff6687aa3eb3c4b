"""AlterClientQuotas: quotas, changed."""

DEFINITION = """
AlterClientQuotas  key 49  versions 0-1  flexible 1+

AlterClientQuotasRequest
  entries           0+  []EntryData
    entity          0+  []EntityData
      entity_type   0+  string
      entity_name   0+  string?
    ops             0+  []OpData
      key           0+  string
      value         0+  float64
      remove        0+  bool
  validate_only     0+  bool

AlterClientQuotasResponse
  throttle_time_ms  0+  int32
  entries           0+  []EntryDataResponse
    error_code      0+  int16
    error_message   0+  string?
    entity          0+  []EntityData
"""
