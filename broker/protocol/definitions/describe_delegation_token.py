"""DescribeDelegationToken: the tokens there are."""

DEFINITION = """
DescribeDelegationToken  key 41  versions 0-3  flexible 2+

DescribeDelegationTokenRequest
  owners                            0+  []DescribeDelegationTokenOwner?
    principal_type                  0+  string
    principal_name                  0+  string

DescribeDelegationTokenResponse
  error_code                        0+  int16
  tokens                            0+  []DescribedDelegationToken
    principal_type                  0+  string
    principal_name                  0+  string
    token_requester_principal_type  3+  string
    token_requester_principal_name  3+  string
    issue_timestamp                 0+  int64
    expiry_timestamp                0+  int64
    max_timestamp                   0+  int64
    token_id                        0+  string
    hmac                            0+  bytes
    renewers                        0+  []DescribedDelegationTokenRenewer
      principal_type                0+  string
      principal_name                0+  string
  throttle_time_ms                  0+  int32
"""
