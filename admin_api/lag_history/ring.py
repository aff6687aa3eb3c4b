"""Lags over the last hours, in memory that does not grow.

A point in time is a slot; each (group, topic, partition) has an array with a lag for
each slot. The newest overwrites the oldest. A series that has nothing left is
forgotten; beyond ``series_max`` new ones are not kept, and how many that were is said.
"""

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

Key = tuple[str, str, int]
"""Group, topic, partition."""
Point = tuple[int, int]
"""Milliseconds since 1970, records."""

_NONE: Final = -1


@dataclass(frozen=True, slots=True)
class Series:
    """The lags of one partition, the oldest first."""

    topic: str
    partition: int
    points: list[Point]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What there was no room for at the last point in time."""

    groups: int = 0
    partitions: int = 0
    """Of groups that were looked at."""


class LagRing:
    """The last ``slots`` points of at most ``series_max`` series."""

    def __init__(self, slots: int, series_max: int) -> None:
        self._series_max = series_max
        self._times: list[int] = [_NONE] * slots
        self._groups: dict[str, dict[tuple[str, int], array[int]]] = {}
        self._newest: dict[Key, int] = {}
        self._next = 0
        self.left_out = 0
        """Series of the last point that there was no room for."""

    def __len__(self) -> int:
        return len(self._newest)

    def add(self, now_ms: int, lags: Mapping[Key, int]) -> None:
        """Keep a point of each series; of those that are missing there is none."""
        slot = self._next % len(self._times)
        self._times[slot] = now_ms
        self._clear(slot)
        self.left_out = 0
        for key, lag in lags.items():
            if key not in self._newest and len(self._newest) >= self._series_max:
                self.left_out += 1
                continue
            self._of(key)[slot] = lag
            self._newest[key] = self._next
        self._next += 1

    def series(self, group: str, since_ms: int = 0) -> Iterator[Series]:
        """What is kept of a group, by topic and partition."""
        slots = self._slots(since_ms)
        for (topic, partition), lags in sorted(
            self._groups.get(group, {}).items(), key=lambda one: one[0]
        ):
            points = [
                (self._times[slot], lags[slot]) for slot in slots if lags[slot] != _NONE
            ]
            if points:
                yield Series(topic, partition, points)

    def _slots(self, since_ms: int) -> list[int]:
        """The slots that are in use, the oldest first."""
        size = len(self._times)
        order = range(max(0, self._next - size), self._next)
        return [at % size for at in order if self._times[at % size] >= since_ms]

    def _of(self, key: Key) -> "array[int]":
        group, own = key[0], key[1:]
        known = self._groups.setdefault(group, {})
        if own not in known:
            known[own] = array("q", [_NONE]) * len(self._times)
        return known[own]

    def _clear(self, slot: int) -> None:
        """Forget the point of this slot, and series that have no other."""
        gone = self._next - len(self._times)
        for key, newest in list(self._newest.items()):
            if newest <= gone:
                del self._newest[key]
                del self._groups[key[0]][key[1:]]
                if not self._groups[key[0]]:
                    del self._groups[key[0]]
            else:
                self._groups[key[0]][key[1:]][slot] = _NONE


def total(found: list[Series]) -> list[Point]:
    """The sum of several series at each time that one of them has."""
    sums: dict[int, int] = {}
    for series in found:
        for at_ms, lag in series.points:
            sums[at_ms] = sums.get(at_ms, 0) + lag
    return sorted(sums.items())
