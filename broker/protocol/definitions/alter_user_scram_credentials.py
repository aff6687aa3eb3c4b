"""AlterUserScramCredentials: SCRAM credentials, changed."""

DEFINITION = """
AlterUserScramCredentials  key 51  versions 0  flexible 0+

AlterUserScramCredentialsRequest
  deletions          0+  []ScramCredentialDeletion
    name             0+  string
    mechanism        0+  int8
  upsertions         0+  []ScramCredentialUpsertion
    name             0+  string
    mechanism        0+  int8
    iterations       0+  int32
    salt             0+  bytes
    salted_password  0+  bytes

AlterUserScramCredentialsResponse
  throttle_time_ms   0+  int32
  results            0+  []AlterUserScramCredentialsResult
    user             0+  string
    error_code       0+  int16
    error_message    0+  string?
"""
