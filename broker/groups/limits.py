"""What a coordinator allows its groups: Kafka's ``group.*`` and ``offsets.*`` values.

The machine takes them as one frozen value, so that a test can have groups that wait
three milliseconds and hold two members.
"""

from dataclasses import dataclass

_SECOND_MS = 1_000
_MINUTE_MS = 60 * _SECOND_MS
_DAY_MS = 24 * 60 * _MINUTE_MS


@dataclass(frozen=True, slots=True)
class GroupLimits:
    """Kafka's defaults; times in milliseconds, sizes in members, bytes or characters.

    ``metadata_bytes_max`` is ours: what the members of one group may say of their
    assignors together. Kafka has the size of a request and of a stored record instead.
    ``memory_bytes_max`` is ours, too: about what all groups and offsets may take.
    """

    initial_rebalance_delay_ms: int = 3 * _SECOND_MS
    session_timeout_min_ms: int = 6 * _SECOND_MS
    session_timeout_max_ms: int = 30 * _MINUTE_MS
    members_max: int = 2**31 - 1
    metadata_bytes_max: int = 64 << 20
    memory_bytes_max: int = 256 << 20
    # A new member has no id to heartbeat with while its first join is parked, so the
    # join itself must end some day (Kafka: classicGroupNewMemberJoinTimeoutMs).
    new_member_join_timeout_ms: int = 5 * _MINUTE_MS
    offset_metadata_max: int = 4096
    offsets_retention_ms: int = 7 * _DAY_MS
    offsets_retention_check_interval_ms: int = 10 * _MINUTE_MS
