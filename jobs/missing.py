"""What was released from the log and is not in its table: no commit goes over it.

The problem: a round goes on where the table ends, and its range covers every gap up to
the next batch, since a refused batch leaves one. When the table's last commit was lost,
or the table is gone, or an older copy was put in its place, what lies between its end
and the first batch that is left looks just the same; and a commit over it would make
the loss look legal for ever. The idea: no segment is released before a checkpoint that
lies behind it is durable, and the checkpoint tells the gaps that refused batches left.
So a gap below the checkpoint's end that is not among these, and not below the log's
start, held records. Owners may delete rows as they like: that moves no end.

The price: the checkpoint is read in a round whose partitions have gaps, or which
creates a table. Pure but for the reading of it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from broker.ids import TopicNumber, TopicPartition
from broker.log import checkpoint
from broker.log.partition import LogSnapshot
from broker.status.schema import TAKEN, way_out
from broker.storage.manifest import read_manifest
from broker.storage.objects import Objects
from jobs.batches import Batches
from jobs.holes import below
from jobs.planner import Pending
from jobs.stuck import WHOLE_TOPIC

Gap = tuple[int, int]
Known = Mapping[TopicPartition, LogSnapshot]

NOTHING_KNOWN: Final = LogSnapshot(0, b"")
"""Of a partition that no checkpoint has named yet: nothing of it was released."""


class Lack(NamedTuple):
    """Why a partition cannot be committed from the offset ``first`` on."""

    first: int
    why: str


class Missing:
    """Finds what may not be committed over, before a round; ``objects`` are where the
    log's checkpoint is kept."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def suspects(
        self,
        due: Iterable[Pending],
        table_ends: Mapping[TopicPartition, int],
        absent: Mapping[TopicNumber, str],
    ) -> list[Pending]:
        """Those of ``due`` that have a gap, or no table."""

        def has_gap(one: Pending) -> bool:
            end = table_ends.get(one.key, 0)
            return not (one.goes_on and one.start == end) and bool(
                gaps(end, one.chunks)
            )

        return [one for one in due if one.key[0] in absent or has_gap(one)]

    def find(
        self,
        suspects: Sequence[Pending],
        waiting: Mapping[TopicPartition, Pending],
        table_ends: Mapping[TopicPartition, int],
        absent: Mapping[TopicNumber, str],
        log_starts: Mapping[TopicPartition, int],
        *,
        is_damaged: bool,
    ) -> dict[TopicPartition, Lack]:
        """Partition -> what it lacks, for each that misses records; a topic without a
        table, of which any partition does, as a whole (`WHOLE_TOPIC`).

        ``is_damaged``: segments have places of which nobody knows what they held. These
        may have taken all of a partition; then it says nothing about its table.

        Raises OSError when the checkpoint cannot be read.
        """
        try:
            known = read_checkpoint(self._objects)
        except ValueError as error:
            return {
                one.key: Lack(0, f"the checkpoint cannot be read: {error}")
                for one in suspects
            }
        sure = {k: one for k, one in known.items() if k in waiting or not is_damaged}
        found = {}
        for number in {one.key[0] for one in suspects} & absent.keys():
            lost = missing_of_topic(number, waiting, log_starts, sure)
            for (_, partition), gap in sorted(lost.items())[:1]:
                why = _sentence(partition, gap, absent[number])
                found[number, WHOLE_TOPIC] = Lack(0, why)
        for one in (one for one in suspects if one.key[0] not in absent):
            lacking = missing_of(one, table_ends.get(one.key, 0), log_starts, known)
            if lacking is not None:
                end = table_ends.get(one.key, 0)
                why = f"its commits end at {end}"
                why = _sentence(one.key[1], lacking, why)
                found[one.key] = Lack(lacking[0], why)
        return found


def front(pending: Pending, first: int) -> Pending:
    """What of it lies before the offset ``first``."""
    chunks = below(pending.chunks, first)
    return Pending(pending.key, pending.start, chunks, pending.since_ms)


def _sentence(partition: int, gap: Gap, why: str) -> str:
    """What is missing, why, and what its owner or the operator can do."""
    return (
        f"offsets {gap[0]} to {gap[1] - 1} of partition {partition} are in no segment "
        f"and not in the table: {why}. {way_out(gap[1], TAKEN)}"
    )


def read_checkpoint(objects: Objects) -> Known:
    """What the broker's checkpoint says of each partition; empty if there is none.

    Raises OSError (ManifestDamaged too), and ValueError if it cannot be read.
    """
    manifest = read_manifest(objects)
    if manifest is None or manifest.payload is None:
        return {}
    return checkpoint.unpack(manifest.payload)


def gaps(start: int, chunks: Iterable[Batches]) -> list[Gap]:
    """Offsets [first, end) from ``start`` on that lie before a batch and in none."""
    found = []
    for chunk in chunks:
        ends = [start, *(chunk.last[:-1] + 1).tolist()]
        for expected, base in zip(ends, chunk.base.tolist(), strict=True):
            if base > max(expected, start):
                found.append((max(expected, start), base))
        start = max(start, int(chunk.last[-1]) + 1)
    return found


def lost_gap(found: Iterable[Gap], log_start: int, known: LogSnapshot) -> Gap | None:
    """The first of these gaps that held records, without what is below ``log_start``.

    A checkpoint of the first format does not tell what was refused. There a gap behind
    the table's first commit is taken for such a one, as the broker does.
    """
    for gap in found:
        first, end = max(gap[0], log_start), min(gap[1], known.durable)
        if known.holes is None and gap[0] > 0:
            continue
        first = past_holes(first, known)
        if first < end:
            return first, end
    return None


def missing_of(
    pending: Pending,
    table_end: int,
    log_starts: Mapping[TopicPartition, int],
    known: Known,
) -> Gap | None:
    """What of a partition neither its table has, which ends there, nor the segments."""
    key = pending.key
    return lost_gap(
        gaps(table_end, pending.chunks),
        log_starts.get(key, 0),
        known.get(key, NOTHING_KNOWN),
    )


def missing_of_topic(
    number: TopicNumber,
    waiting: Mapping[TopicPartition, Pending],
    log_starts: Mapping[TopicPartition, int],
    known: Known,
) -> dict[TopicPartition, Gap]:
    """Of a topic that has no table: what of it was released from the log all the same.

    ``waiting`` is all that stands in segments.
    """
    found = {}
    for key, snapshot in known.items():
        if key[0] != number:
            continue
        pending, log_start = waiting.get(key), log_starts.get(key, 0)
        held = gaps(0, pending.chunks) if pending else [(0, snapshot.durable)]
        gap = lost_gap(held, log_start, snapshot)
        if gap is not None:
            found[key] = gap
    return found


def past_holes(offset: int, known: LogSnapshot) -> int:
    """The first offset from this one on that was not a refused batch's."""
    for first, end in sorted(known.holes or ()):
        if first <= offset < end:
            offset = end
    return offset
