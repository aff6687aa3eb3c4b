"""ExpireDelegationToken: a token, ended."""

DEFINITION = """
ExpireDelegationToken  key 40  versions 0-2  flexible 2+

ExpireDelegationTokenRequest
  hmac                 0+  bytes
  expiry_time_period_ms  0+  int64

ExpireDelegationTokenResponse
  error_code           0+  int16
  expiry_timestamp_ms  0+  int64
  throttle_time_ms     0+  int32
"""
