"""Heartbeat: a member of a group is alive."""

DEFINITION = """
Heartbeat  key 12  versions 0-4  flexible 4+

HeartbeatRequest
  group_id           0+  string
  generation_id      0+  int32
  member_id          0+  string
  group_instance_id  3+  string?  = null

HeartbeatResponse
  throttle_time_ms   1+  int32
  error_code         0+  int16
"""
