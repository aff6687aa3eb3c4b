"""FindCoordinator: which broker coordinates a group, a transaction or a share."""

DEFINITION = """
FindCoordinator  key 10  versions 0-6  flexible 3+

FindCoordinatorRequest
  key               0-3  string
  key_type          1+   int8
  coordinator_keys  4+   []string

FindCoordinatorResponse
  throttle_time_ms  1+   int32
  error_code        0-3  int16
  error_message     1-3  string?
  node_id           0-3  int32
  host              0-3  string
  port              0-3  int32
  coordinators      4+   []Coordinator
    key             4+   string
    node_id         4+   int32
    host            4+   string
    port            4+   int32
    error_code      4+   int16
    error_message   4+   string?
"""
