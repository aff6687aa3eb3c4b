"""UnregisterBroker: a broker that will not come back, forgotten."""

DEFINITION = """
UnregisterBroker  key 64  versions 0  flexible 0+

UnregisterBrokerRequest
  broker_id         0+  int32

UnregisterBrokerResponse
  throttle_time_ms  0+  int32
  error_code        0+  int16
  error_message     0+  string?
"""
