"""How hard the compactor works now: behind the producers, until it is late.

The problem: a round's workers take the same share of the machine as the broker, and a
producer that fills the machine loses a third of its speed to them; yet a compactor that
always steps aside falls behind for as long as the producer goes on. The idea: while
what waits is young, workers run at a low priority, and only one of them while producers
are busy; small rounds, so that this is decided again soon. Once something has waited
for longer than it should, or more waits than should, they take their full share until
they have caught up.

The price: after a burst the tables are some seconds further behind than they could be,
but within what `lake.flush_ms` promises twice over. Pure.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

LATE_FLUSHES: Final = 1
"""What is due for so many times ``lake.flush_ms`` is late."""
LATE_BYTES: Final = 1 << 30
"""So much log that waits is late, however young: about what the broker has written
segments for, and writing to new ones costs producers more than we do."""
BUSY_BYTES_PER_S: Final = 40 << 20
"""Producers that write so much are busy: one worker is left for them."""
BEHIND_NICENESS: Final = 15
WORKER_BYTES: Final = 64 << 20
"""Of a round, for each worker."""
FULL_ROUND_BYTES: Final = 256 << 20
"""Of a round that has all cores, however few these are."""


class Pace(NamedTuple):
    """``share``: one worker for so many cores; ``niceness``: theirs, 0 to 19."""

    share: int
    niceness: int

    def tasks(self, cores: int) -> int:
        """How many workers at once."""
        return max(1, cores // self.share)

    def round_bytes(self, cores: int) -> int:
        """How much a round takes."""
        least = FULL_ROUND_BYTES if self.share == 1 else 0
        return max(least, WORKER_BYTES * self.tasks(cores))


FULL: Final = Pace(1, 0)


def pace(*, overdue_ms: int, pending_bytes: int, inflow: float, flush_ms: int) -> Pace:
    """How to run the next round.

    ``overdue_ms``: for how long something has been due; ``inflow``: bytes a second that
    producers write.
    """
    if overdue_ms > LATE_FLUSHES * flush_ms or pending_bytes > LATE_BYTES:
        return FULL
    return Pace(1 if inflow < BUSY_BYTES_PER_S else 2, BEHIND_NICENESS)


class Pacing:
    """The pace from one look to the next, and the niceness of the session.

    ``set_niceness``: gives the session a niceness; whether it has it then.
    """

    def __init__(self, flush_ms: int, set_niceness: Callable[[int], bool]) -> None:
        self._flush_ms, self._set_niceness = flush_ms, set_niceness
        self._inflow, self._compacted, self._niceness = Inflow(), 0, 0
        self.pace = FULL

    @property
    def is_late(self) -> bool:
        """Whether rounds take the full share of the machine."""
        return self.pace.niceness == 0

    def note(self, compacted: int) -> None:
        """So many bytes of the log went to tables."""
        self._compacted += compacted

    def look(self, pending_bytes: int, overdue_ms: int, now_ms: int) -> None:
        """Step behind the producers, or take the full share; for `pace`."""
        compacted, self._compacted = self._compacted, 0
        self.pace = pace(
            overdue_ms=overdue_ms,
            pending_bytes=pending_bytes,
            inflow=self._inflow.look(pending_bytes, compacted, now_ms),
            flush_ms=self._flush_ms,
        )
        niceness = self.pace.niceness
        if niceness != self._niceness and self._set_niceness(niceness):
            self._niceness = niceness


class Inflow:
    """Bytes a second that come into the log, told from what waits and what went."""

    def __init__(self) -> None:
        self._at_ms: int | None = None
        self._pending = 0
        self.bytes_per_s = 0.0

    def look(self, pending: int, compacted: int, now_ms: int) -> float:
        """The rate since the last look, in which ``compacted`` bytes left the log."""
        before, since = self._pending, self._at_ms
        if since is not None and now_ms <= since:
            return self.bytes_per_s
        self._pending, self._at_ms = pending, now_ms
        if since is not None:
            came = max(0, pending + compacted - before)
            self.bytes_per_s = came * 1000 / (now_ms - since)
        return self.bytes_per_s
