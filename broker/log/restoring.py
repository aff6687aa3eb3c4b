"""The log of a partition after a start: what is put together again, and of what.

The problem. Four know a part of a log: the checkpoint (what segments and tables cannot
tell), the table's end, the entries that are live, and storage, which knows where
something is missing. Between two entries may lie a batch that was refused, or records
whose segment was let go before that of the first, and these are the table's; or records
are lost.

The idea. Each gap is explained once, here: as a hole that may be passed over, as the
table's, or as lost, and what is below and above it is served. Where nobody knows, it is
lost: a refused batch may be taken for a loss, never the other way round.

The price. All gaps are looked for at each start, in columns.
"""

from typing import Any

from broker.log.index import BatchIndex, Gap
from broker.log.lost import (
    NOWHERE,
    Lost,
    Places,
    may_be_released,
    place_between,
    refused_at,
)
from broker.log.partition import LogSnapshot, PartitionLog
from broker.log.producers import Producers
from broker.log.transactions import Transactions


def restore_log(
    snapshot: LogSnapshot | None,
    *,
    start: int = 0,
    table_end: int = 0,
    columns: Any = None,
    places: Places = (),
    replayed_from: int = 0,
    lost_end: int = 0,
    released_end: int = 0,
    has_all: bool = False,
) -> PartitionLog:
    """The log after a start: from checkpoint, table and the segments' entries.

    ``columns`` has the attributes base, last, max_ts, location and length, integer
    columns of all entries that are live; ``places`` are those where some are
    missing; what the snapshot does not know lies behind the location
    ``replayed_from``. ``lost_end``: that of damaged batches whose offsets are
    known; ``released_end``: below it segments were released, markers with them;
    ``has_all``: nothing ever was, nor stands in a table. The durable end is the
    greatest of all that is known, so it never falls behind what was visible. Follow
    with the log's ``replay`` for each entry that was not committed when the snapshot
    was taken, and with ``end_replay``.
    """
    index = BatchIndex()
    if columns is not None:
        c = columns
        index.extend(c.base, c.last, c.max_ts, c.location, c.length)
    kept = snapshot.durable if snapshot else 0
    end = max(table_end, kept, lost_end, released_end, index.end_offset or 0)
    log = PartitionLog(start, max(start, end))
    log.index = index
    gaps = [] if snapshot else _gaps_below(index, has_all=has_all)
    index.trim_below(start)
    held = log.first_in_segments
    if snapshot and snapshot.transactions:
        log.transactions = Transactions.restore(snapshot.transactions)
        index.trim_below(log.transactions.forgotten_below)
    _find_holes(log, snapshot, table_end, places, replayed_from)
    if snapshot:
        log.producers = Producers.restore(snapshot.producers)
        _restore_transactions(log, snapshot, held)
        if snapshot.holes is None:
            _abandon_refused(log, max(kept, table_end))
    else:
        gone_below = max(released_end, log.left_from or 0)
        log.transactions.forgotten_below = gone_below if held < gone_below else 0
        log.holes += refused_at(max(start, released_end), gaps, places)
        _leave_to_table(log, table_end)
    log.has_forgotten = snapshot is None or bool(places)
    log.producers.has_forgotten |= log.has_forgotten
    return log


def _gaps_below(index: BatchIndex, *, has_all: bool) -> list[Gap]:
    """All gaps of a log that has no checkpoint, those below its start as well; and the
    one before its first batch, if nothing but a refused one can have been there."""
    gaps = index.gaps()
    if has_all and len(index) and index[0].base > 0:
        gaps.append(Gap(0, index[0].base, 0, index[0].location))
    return gaps


def _find_holes(
    log: PartitionLog,
    snapshot: LogSnapshot | None,
    table_end: int,
    places: Places,
    replayed_from: int,
) -> None:
    """The snapshot's, and each gap behind it unless something is missing there."""
    index, known = log.index, snapshot.holes if snapshot else ()
    kept = snapshot.durable if snapshot else 0
    floor = replayed_from if snapshot and known is not None else 0
    log.holes, log.left_from = list(known or ()), log.first_in_segments
    if snapshot is not None:
        _find_first_hole(log, snapshot, table_end, places, floor)
    for gap in index.gaps():
        start, end = max(gap.first, table_end), gap.end
        if gap.first < table_end:  # what is below is the table's as well
            index.trim_below(end)
            if may_be_released(gap, known, kept, places):
                log.left_from = end
        refused = start if known is None else max(start, kept)
        lost = place_between(places, max(gap.after, floor), gap.before)
        if lost is None and refused < end:
            log.holes.append((refused, end))
            end = refused
        if start < end and log.hole_end(start) != end:
            damaged = place_between(places, gap.after, gap.before)
            log.lost.append(Lost(start, end, bool(damaged)))
    if (index.end_offset or 0) < table_end:  # so are those of a newer segment
        index.trim_below(table_end)
        log.left_from = log.durable
    _find_lost_end(log, table_end, places)


def _find_lost_end(log: PartitionLog, table_end: int, places: Places) -> None:
    """What is missing behind the last batch: others will come to lie behind it."""
    if not len(log.index):
        return
    last, end = log.index[-1], log.durable
    start = max(last.last + 1, table_end)
    if start < end and log.hole_end(start) != end:
        damaged = place_between(places, last.location, NOWHERE)
        log.lost.append(Lost(start, end, bool(damaged)))


def _find_first_hole(
    log: PartitionLog,
    snapshot: LogSnapshot,
    table_end: int,
    places: Places,
    floor: int,
) -> None:
    """What was refused before the first batch that is left: no segment goes before
    a checkpoint is behind it, so nothing else was behind this one."""
    if not len(log.index):
        return
    first = log.index[0]
    if snapshot.holes is not None:
        behind, is_sure = snapshot.durable, True
    else:  # it says nothing of refused batches: the table's end does
        behind, is_sure = table_end, table_end > 0
    is_whole = place_between(places, floor, first.location) is None
    if is_sure and is_whole and max(behind, log.start) < first.base:
        log.holes.append((max(behind, log.start), first.base))


def _abandon_refused(log: PartitionLog, durable: int) -> None:
    """Take back what was in flight at an older version's checkpoint and is not
    there: as good as can be known from offsets."""
    for base in log.producers.unconfirmed(durable):
        if not log.index.holds(base):
            log.producers.abandon(base)


def _restore_transactions(log: PartitionLog, snapshot: LogSnapshot, held: int) -> None:
    log.transactions.trim(log.first_in_segments, held)
    log.known_end = snapshot.durable
    log.transactions.know(log.producers.newest_end)
    log.restore_stable()


def _leave_to_table(log: PartitionLog, table_end: int) -> None:
    """Without a checkpoint, read what the table has from there alone: a marker that
    said what of it counts may be gone with its segment, before the records are. No
    transaction is open there; of a batch that was deleted in part one may be."""
    log.index.trim_below(table_end)
    whole_end = min(log.start, log.first_in_segments)
    log.decided_end = whole_end if table_end <= log.start else table_end
