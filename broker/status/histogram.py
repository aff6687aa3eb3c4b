"""Histograms of plain integers: counted where things happen, read by whoever asks.

A bucket's bound is twice the one before it, so that its number is the length of an
integer in bits: no search, no float, some 100 ns. Durations begin at 64 us and end at
16.8 s; sizes begin at 1. Who reads while another thread counts may miss the newest one.
"""

from dataclasses import dataclass
from typing import Final

UNIT_NS: Final = 64_000
TIMES: Final = 20
"""Buckets of durations; the last one has no bound."""
SIZES: Final = 14
"""Buckets of sizes: up to 1, 2, 4 ... 4,096, and more."""

LONG_TIMES: Final = 25
"""The same for what takes minutes: up to 9 of them."""
LONG_SIZES: Final = 32
"""Of rows and bytes: up to 1 Gi."""

_LENGTHS: Final = 65
"""Bits of what fits 64, and of 0."""


@dataclass(frozen=True, slots=True)
class HistogramState:
    """What was counted: how often in each bucket, and the sum of all values."""

    buckets: tuple[int, ...] = ()
    total: int = 0


class Histogram:
    """Counts durations in nanoseconds, or sizes. One thread adds."""

    __slots__ = ("_buckets", "_last", "_total")

    def __init__(self, buckets: int) -> None:
        # one for each length that a number may have: none is compared when it counts
        self._buckets, self._last, self._total = [0] * _LENGTHS, buckets - 1, 0

    def add_time(self, ns: int) -> None:
        """Count a duration."""
        self._buckets[(ns // UNIT_NS).bit_length()] += 1
        self._total += ns

    def add_size(self, size: int) -> None:
        """Count a size, which is at least 1."""
        self._buckets[(size - 1).bit_length()] += 1
        self._total += size

    def state(self) -> HistogramState:
        """What was counted until now."""
        buckets, last = self._buckets, self._last
        counted = (*buckets[:last], sum(buckets[last:]))
        return HistogramState(counted, self._total)


def merged(one: HistogramState, other: HistogramState) -> HistogramState:
    """Both together; they have the same buckets, or none."""
    if not (one.buckets and other.buckets):
        return one if one.buckets else other
    pairs = zip(one.buckets, other.buckets, strict=True)
    return HistogramState(tuple(a + b for a, b in pairs), one.total + other.total)


def time_bounds_s(buckets: int) -> list[float]:
    """The upper bounds of buckets of durations, in seconds; the last has none."""
    return [UNIT_NS * 2**number / 1e9 for number in range(buckets - 1)]


def size_bounds(buckets: int) -> list[float]:
    """The upper bounds of buckets of sizes; the last has none."""
    return [float(2**number) for number in range(buckets - 1)]
