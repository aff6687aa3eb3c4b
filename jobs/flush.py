"""When a topic's records go to its table: what flows at once, what trickles seldom.

The problem: each time makes a file of each partition that has something, and a file
costs whoever reads the table, however small it is; yet nobody wants to wait. The idea:
records wait until *bytes times age* is worth their files: a file of `FILE_BYTES` is
worth `lake.flush.ms`. A topic that gets so much in that time goes each time, as early
as any; one of a tenth of it waits three times as long for files three times as small,
and so on up to its `lake.flush.max.ms`, at which everything goes.

A topic that made no small files for `lake.flush.max.ms` goes after `lake.flush.ms`: it
makes no more files by that than by waiting. So the first records of a quiet topic are
in its table soon, and so are the last of a busy one.

What holds segments of the log waits no longer than `lake.flush.ms`: they are worth
more than files. Pure.

The price: how long a topic waits cannot be told beforehand, only its bound.
"""

from typing import Final, NamedTuple

FILE_BYTES: Final = 1 << 20
"""Log bytes of a partition that are worth a file every `lake.flush.ms`."""
SEGMENTS_HELD_MAX: Final = 8
"""Whose oldest batch lies so many segments back goes as what flows: of 64 MiB each, a
quarter of what is kept as a cache of disk in any case."""


class Flush(NamedTuple):
    """What holds for a topic: `lake.flush.ms`, its `lake.flush.max.ms`, and the bytes
    that go at any age."""

    ms: int
    max_ms: int
    bytes: int

    @property
    def soonest_ms(self) -> int:
        return min(self.ms, self.max_ms)


class Waiting(NamedTuple):
    """What a topic has for its table: ``age_ms`` of the oldest, ``quiet_ms`` since it
    made small files (None: it is not known to), ``segments`` that were begun behind the
    oldest."""

    bytes: int
    partitions: int
    age_ms: int
    quiet_ms: int | None
    segments: int


def overdue_ms(waiting: Waiting, flush: Flush) -> int:
    """For how long the topic has been due by age; below 0: it is not."""
    waited = waiting.age_ms - flush.soonest_ms
    return min(waited, max(_worth_it_ms(waiting, flush), _rested_ms(waiting, flush)))


def is_due(waiting: Waiting, flush: Flush) -> bool:
    """Whether the topic's records go now."""
    return waiting.bytes >= flush.bytes or overdue_ms(waiting, flush) >= 0


def comes_along(waiting: Waiting, flush: Flush) -> bool:
    """Whether they go when other topics' do: that spares a round of their own soon."""
    if waiting.bytes >= flush.bytes // 2:
        return True
    half = flush.soonest_ms // 2
    spare = max(half, _wait_ms(waiting, flush) // 4)
    soon = max(_worth_it_ms(waiting, flush), _rested_ms(waiting, flush)) >= -spare
    return soon and waiting.age_ms >= flush.soonest_ms - half


def _wait_ms(waiting: Waiting, flush: Flush) -> int:
    """At which age what the topic has is worth its files."""
    worth = FILE_BYTES * waiting.partitions * flush.ms // max(1, waiting.bytes)
    return max(flush.soonest_ms, min(worth, flush.max_ms))


def _worth_it_ms(waiting: Waiting, flush: Flush) -> int:
    return waiting.age_ms - _wait_ms(waiting, flush)


def _rested_ms(waiting: Waiting, flush: Flush) -> int:
    """For how long the topic need not wait for more, whatever it has."""
    if waiting.quiet_ms is None:
        return waiting.age_ms
    rested = waiting.quiet_ms - flush.max_ms
    return max(rested, 0) if waiting.segments >= SEGMENTS_HELD_MAX else rested
