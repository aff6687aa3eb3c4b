"""CreateDelegationToken: a token to authenticate with."""

DEFINITION = """
CreateDelegationToken  key 38  versions 0-3  flexible 2+

CreateDelegationTokenRequest
  owner_principal_type            3+  string?
  owner_principal_name            3+  string?
  renewers                        0+  []CreatableRenewers
    principal_type                0+  string
    principal_name                0+  string
  max_lifetime_ms                 0+  int64

CreateDelegationTokenResponse
  error_code                      0+  int16
  principal_type                  0+  string
  principal_name                  0+  string
  token_requester_principal_type  3+  string
  token_requester_principal_name  3+  string
  issue_timestamp_ms              0+  int64
  expiry_timestamp_ms             0+  int64
  max_timestamp_ms                0+  int64
  token_id                        0+  string
  hmac                            0+  bytes
  throttle_time_ms                0+  int32
"""
