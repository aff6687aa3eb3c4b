"""LeaveGroup: members leave a group."""

DEFINITION = """
LeaveGroup  key 13  versions 0-5  flexible 4+

LeaveGroupRequest
  group_id             0+   string
  member_id            0-2  string
  members              3+   []MemberIdentity
    member_id          3+   string
    group_instance_id  3+   string?  = null
    reason             5+   string?  = null

LeaveGroupResponse
  throttle_time_ms     1+   int32
  error_code           0+   int16
  members              3+   []MemberResponse
    member_id          3+   string
    group_instance_id  3+   string?
    error_code         3+   int16
"""
