"""DescribeClientQuotas: quotas, read."""

DEFINITION = """
DescribeClientQuotas  key 48  versions 0-1  flexible 1+

DescribeClientQuotasRequest
  components        0+  []ComponentData
    entity_type     0+  string
    match_type      0+  int8
    match           0+  string?
  strict            0+  bool

DescribeClientQuotasResponse
  throttle_time_ms  0+  int32
  error_code        0+  int16
  error_message     0+  string?
  entries           0+  []EntryData?
    entity          0+  []EntityData
      entity_type   0+  string
      entity_name   0+  string?
    values          0+  []ValueData
      key           0+  string
      value         0+  float64
"""
