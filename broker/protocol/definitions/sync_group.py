"""SyncGroup: the leader of a group hands out, a member receives its assignment."""

DEFINITION = """
SyncGroup  key 14  versions 0-5  flexible 4+

SyncGroupRequest
  group_id           0+  string
  generation_id      0+  int32
  member_id          0+  string
  group_instance_id  3+  string?  = null
  protocol_type      5+  string?  = null
  protocol_name      5+  string?  = null
  assignments        0+  []SyncGroupRequestAssignment
    member_id        0+  string
    assignment       0+  bytes

SyncGroupResponse
  throttle_time_ms   1+  int32
  error_code         0+  int16
  protocol_type      5+  string?  = null
  protocol_name      5+  string?  = null
  assignment         0+  bytes
"""
