"""Every offset below the high watermark has an answer: where to look for it.

The problem: segments and tables change by themselves, and a table may be gone, damaged
or replaced. An offset that none of them has must never look like one that was deleted.
The idea: one place decides, from the log and the table's end
alone: an offset is in segments, or below the table's end (whoever reads there tells
what is wrong, or finds that its owner deleted it), or it is that of a refused batch;
anything else is missing, and is an error that says why. The price: none on the way to
memory, where an offset between the first and the last batch of the index is all that is
asked, as long as a start found nothing lost between them.
"""

import asyncio
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from broker.protocol.errors import ErrorCode, KafkaError
from broker.runtime.partitions.partition import Partition
from broker.runtime.ports import Tables

PARTITIONS_A_TURN: Final = 500
"""So many are looked at in one turn of the loop: a few microseconds each."""


class Missing(NamedTuple):
    """Offsets [first, end) of a partition that nobody has."""

    partition: Partition
    first: int
    end: int


def missing_error(partition: Partition, offset: int, lake: Tables) -> KafkaError:
    """KAFKA_STORAGE_ERROR for an offset that is in no segment and not in the table;
    CORRUPT_MESSAGE if its bytes are there and damaged."""
    lost = partition.log.next_lost(offset)
    if lost is not None and lost.damaged and lost.first <= offset:
        return KafkaError(
            ErrorCode.CORRUPT_MESSAGE,
            f"offset {offset} of partition {partition.index} is in a damaged place of "
            "the log",
        )
    why = lake.why_missing(*partition.key)
    return KafkaError(
        ErrorCode.KAFKA_STORAGE_ERROR,
        f"offset {offset} of partition {partition.index} is in no segment: {why}",
    )


def undecided_error(partition: Partition, offset: int) -> KafkaError | None:
    """KAFKA_STORAGE_ERROR for who reads what is committed at an offset where no marker
    says what is; None: all that is there is decided."""
    undecided = partition.log.transactions.next_undecided(offset)
    if undecided is None or offset < undecided.first:
        return None
    return KafkaError(
        ErrorCode.KAFKA_STORAGE_ERROR,
        f"offset {offset} of partition {partition.index} is undecided: the marker of a "
        f"transaction that begins at {undecided.first} may be lost",
    )


def undecided(partitions: Iterable[Partition]) -> list[Missing]:
    """The first of each of these that no marker decides."""
    return [
        Missing(partition, *first)
        for partition in partitions
        if (first := partition.log.transactions.next_undecided(0)) is not None
    ]


def hidden(partitions: Iterable[Partition], lake: Tables) -> list[Missing]:
    """The last offsets of each of these whose table goes on behind them: it was not
    there when the log went on without it. They are the table's, and what was written
    at them is served nobody."""
    found = []
    for partition in partitions:
        table_end, log = lake.table_end(*partition.key), partition.log
        if log.next < table_end:
            found.append(Missing(partition, log.next, table_end))
    return found


def missing_of(partition: Partition, table_end: int) -> Missing | None:
    """The first offsets that neither segments nor the table's commits cover."""
    return next(_all_missing_of(partition, table_end), None)


async def may_hold_missing(
    sequences: Iterable[int], partitions: Iterable[Partition], lake: Tables
) -> set[int]:
    """Those of these segments that may have held any offsets of these partitions that
    neither segments nor the tables' commits cover.

    One look at the partitions is for all segments; of thousands that is milliseconds,
    so the loop has its turn now and then.
    """
    asked = set(sequences)
    left = sorted(asked)
    for count, partition in enumerate(partitions, 1):
        around = partition.log.index.segments_around
        for each in _all_missing_of(partition, lake.table_end(*partition.key)):
            found = around(each.first)
            del left[bisect_left(left, found.start) : bisect_left(left, found.stop)]
        if not left:
            break
        if count % PARTITIONS_A_TURN == 0:
            await asyncio.sleep(0)
    return asked.difference(left)


def _all_missing_of(partition: Partition, table_end: int) -> Iterator[Missing]:
    """The offsets between batches, and around them, that nobody has."""
    log = partition.log
    first, behind = log.index.first_offset, log.index.end_offset
    start = max(log.start, table_end)
    if first is None or behind is None:
        spans = [(start, log.durable)]
    else:
        lost = (each[:2] for each in log.lost)
        spans = [(start, first), *lost, (behind, log.durable)]
    found = (_uncovered(partition, max(start, low), high) for low, high in spans)
    return filter(None, found)


def is_reached(partition: Partition, offset: int, table_end: int) -> bool:
    """Whether all below an offset is in the table or deleted, but for refused
    batches."""
    start = max(partition.log.start, table_end)
    return _uncovered(partition, start, offset) is None


def _uncovered(partition: Partition, start: int, end: int) -> Missing | None:
    """The first of the offsets [start, end) that is not of a refused batch."""
    while start < end:
        hole_end = partition.log.hole_end(start)
        if hole_end is None:
            return Missing(partition, start, end)
        start = hole_end
    return None


def missing(partitions: Iterable[Partition], lake: Tables) -> list[Missing]:
    """What is missing of all these."""
    return [
        found
        for partition in partitions
        if (found := missing_of(partition, lake.table_end(*partition.key))) is not None
    ]
