"""GetTelemetrySubscriptions: which metrics a client is asked for."""

DEFINITION = """
GetTelemetrySubscriptions  key 71  versions 0  flexible 0+

GetTelemetrySubscriptionsRequest
  client_instance_id          0+  uuid

GetTelemetrySubscriptionsResponse
  throttle_time_ms            0+  int32
  error_code                  0+  int16
  client_instance_id          0+  uuid
  subscription_id             0+  int32
  accepted_compression_types  0+  []int8
  push_interval_ms            0+  int32
  telemetry_max_bytes         0+  int32
  delta_temporality           0+  bool
  requested_metrics           0+  []string
"""
