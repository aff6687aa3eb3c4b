"""SaslAuthenticate: one step of a SASL exchange."""

DEFINITION = """
SaslAuthenticate  key 36  versions 0-2  flexible 2+

SaslAuthenticateRequest
  auth_bytes           0+  bytes

SaslAuthenticateResponse
  error_code           0+  int16
  error_message        0+  string?
  auth_bytes           0+  bytes
  session_lifetime_ms  1+  int64
"""
