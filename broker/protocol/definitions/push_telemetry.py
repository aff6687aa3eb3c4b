"""PushTelemetry: a client's metrics."""

DEFINITION = """
PushTelemetry  key 72  versions 0  flexible 0+

PushTelemetryRequest
  client_instance_id  0+  uuid
  subscription_id     0+  int32
  terminating         0+  bool
  compression_type    0+  int8
  metrics             0+  bytes

PushTelemetryResponse
  throttle_time_ms    0+  int32
  error_code          0+  int16
"""
