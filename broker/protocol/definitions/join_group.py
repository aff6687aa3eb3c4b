"""JoinGroup: a member asks to take part in the next generation of a group."""

DEFINITION = """
JoinGroup  key 11  versions 0-9  flexible 6+

JoinGroupRequest
  group_id              0+  string
  session_timeout_ms    0+  int32
  rebalance_timeout_ms  1+  int32    = -1
  member_id             0+  string
  group_instance_id     5+  string?  = null
  protocol_type         0+  string
  protocols             0+  []JoinGroupRequestProtocol
    name                0+  string
    metadata            0+  bytes
  reason                8+  string?  = null

JoinGroupResponse
  throttle_time_ms      2+  int32
  error_code            0+  int16
  generation_id         0+  int32    = -1
  protocol_type         7+  string?  = null
  protocol_name         0+  string?7+
  leader                0+  string
  skip_assignment       9+  bool
  member_id             0+  string
  members               0+  []JoinGroupResponseMember
    member_id           0+  string
    group_instance_id   5+  string?  = null
    metadata            0+  bytes
"""
