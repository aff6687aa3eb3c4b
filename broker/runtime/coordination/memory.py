"""How much memory all groups take, and whether there is room for more.

The problem: a group costs its client one small request and us some kilobytes, for as
long as somebody is in it, or for a week if an offset was committed. Kafka leaves the
sum to the size of its heap. The idea: what groups, members and offsets take is counted
as they change, and what would add to it is refused above a bound, with an error after
which every client asks again later. Whoever is here goes on: heartbeats, rejoins that
say no more than before and commits of offsets that are here add nothing. The price: the
count is an estimate.
"""

import structlog

from broker.clock import Clock
from broker.groups.group import Group
from broker.runtime.coordination.coordinator_offsets import CommittedOffsets

log = structlog.get_logger("lakelog.groups")

REPORTED_EACH_MS = 60_000


class GroupMemory:
    """The sum of all groups. For the event loop's thread only."""

    def __init__(self, bytes_max: int, offsets: CommittedOffsets, clock: Clock) -> None:
        self._bytes_max = bytes_max
        self._offsets = offsets
        self._clock = clock
        self._of_groups: dict[str, int] = {}
        self._sum = 0
        self._reported_ms: int | None = None

    @property
    def held_bytes(self) -> int:
        """About what groups, members and offsets take."""
        return self._sum + self._offsets.held_bytes

    def weigh(self, group: Group) -> None:
        """Count a group as it is now."""
        held = group.held_bytes
        self._sum += held - self._of_groups.get(group.group_id, 0)
        self._of_groups[group.group_id] = held

    def forget(self, group_id: str) -> None:
        """Count a group no more."""
        self._sum -= self._of_groups.pop(group_id, 0)

    def has_room(self, added_bytes: int) -> bool:
        """Whether so much may come; nothing always may. Logs a refusal now and then."""
        if added_bytes <= 0 or self.held_bytes + added_bytes <= self._bytes_max:
            return True
        now_ms = self._clock.now_ms()
        last_ms = self._reported_ms
        if last_ms is None or not 0 <= now_ms - last_ms < REPORTED_EACH_MS:
            self._reported_ms = now_ms
            log.warning(
                "no room for more groups or offsets (groups.memory_bytes_max)",
                held_bytes=self.held_bytes,
                bytes_max=self._bytes_max,
            )
        return False
