"""DescribeUserScramCredentials: SCRAM credentials, read (never the secrets)."""

DEFINITION = """
DescribeUserScramCredentials  key 50  versions 0  flexible 0+

DescribeUserScramCredentialsRequest
  users               0+  []UserName?
    name              0+  string

DescribeUserScramCredentialsResponse
  throttle_time_ms    0+  int32
  error_code          0+  int16
  error_message       0+  string?
  results             0+  []DescribeUserScramCredentialsResult
    user              0+  string
    error_code        0+  int16
    error_message     0+  string?
    credential_infos  0+  []CredentialInfo
      mechanism       0+  int8
      iterations      0+  int32
"""
