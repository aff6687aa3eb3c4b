"""On whose owners to wait, and for how long. Pure.

The problem: Delta fails an owner's DELETE, UPDATE or MERGE when anything was added to
the table since he looked at it (open source Delta has no isolation that lets appends
pass), and records come every few seconds; so he fails again and again. The idea: an
attempt is seen by its files, which no commit names yet. From then on nothing is
committed to that table until the owner has; if it was too late for this attempt, it is
not for the next one.

The price: a table's freshness. It is bounded: a wait ends after ``bound_ms``, however
many attempts there are, and the next one begins when all that waited is committed: a
round is of bounded size, and one each half minute would be less than comes.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from broker.ids import TopicNumber


@dataclass(slots=True)
class _Wait:
    """Since we last caught up: when an attempt was first seen, whether one is still
    waited for, whether the time is over."""

    since_ms: int
    is_on: bool = True
    is_over: bool = False


class Attempts:
    """What owners are about to do, by topic."""

    def __init__(self, bound_ms: int) -> None:
        self._bound_ms = bound_ms
        self._waits: dict[TopicNumber, _Wait] = {}
        self.seen = 0
        """How many waits began."""

    def began(self, number: TopicNumber, now_ms: int) -> None:
        """A file of the owner's appeared."""
        wait = self._waits.setdefault(number, _Wait(now_ms, is_on=False))
        if not wait.is_on and not wait.is_over:
            wait.is_on = True
            self.seen += 1

    def ended(self, number: TopicNumber) -> None:
        """The owner has committed."""
        if number in self._waits:
            self._waits[number].is_on = False

    def committed(self, numbers: Iterable[TopicNumber]) -> None:
        """We have, all that waited: whoever tries from now on is waited for anew."""
        for number in numbers:
            self._waits.pop(number, None)

    def keep(self, numbers: Collection[TopicNumber]) -> None:
        """Forget all other topics: they were deleted."""
        for gone in [number for number in self._waits if number not in numbers]:
            del self._waits[gone]

    def waited_for(self, now_ms: int) -> frozenset[TopicNumber]:
        """Topics to whose tables nothing is to be committed now."""
        for wait in self._waits.values():
            if now_ms - wait.since_ms >= self._bound_ms:
                wait.is_on, wait.is_over = False, True
        return frozenset(number for number, wait in self._waits.items() if wait.is_on)
