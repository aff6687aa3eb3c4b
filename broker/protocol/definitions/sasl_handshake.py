"""SaslHandshake: which SASL mechanism will be used."""

DEFINITION = """
SaslHandshake  key 17  versions 0-1  flexible none

SaslHandshakeRequest
  mechanism   0+  string

SaslHandshakeResponse
  error_code  0+  int16
  mechanisms  0+  []string
"""
