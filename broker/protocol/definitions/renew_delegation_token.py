"""RenewDelegationToken: a token, kept longer."""

DEFINITION = """
RenewDelegationToken  key 39  versions 0-2  flexible 2+

RenewDelegationTokenRequest
  hmac                 0+  bytes
  renew_period_ms      0+  int64

RenewDelegationTokenResponse
  error_code           0+  int16
  expiry_timestamp_ms  0+  int64
  throttle_time_ms     0+  int32
"""
