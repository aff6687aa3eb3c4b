"""What of a partition's batches is decided, and what of that counts.

The problem: a record of a transaction counts or not by a marker that comes later, and
the compactor asks no broker. The idea: from the table's end on it has all batches, in
their order. Those of a producer's transaction wait for that producer's next marker,
which commits or aborts them. Where the first stands that has none yet, the partition's
stable part ends. A table never ends inside an open transaction, so none began below it;
of an aborted one that did, the part below was left out before.

A marker that is damaged ended a transaction, and nobody knows whose or how. What was
open then is as good as open: the next marker of its producer is of another one. So is
the damaged one itself: it may be no marker, but records whose head could not be read.
The same holds at a hole. A marker may also be lost with nothing to show where: then
epochs may tell. That of a marker is at most one above its transaction's, and all
records of one have the same. In version 1 of transactions, where many have one epoch, a
marker says from which offset on it decides, and none of this is asked: it decides all
that is there. So does one that was written again, behind a single lost offset. The
broker decides by the same rules (`broker.log.undecided`): what it serves as committed
must not be called lost.

Batches that do not count stay in their chunks, so that a range has no gap; they have no
rows. Pure.

The price: a sort of the transactional batches by producer, about a tenth of a
microsecond each, whenever the compactor looks and something has changed.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from broker.records.kinds import (
    ABORT,
    COMMIT,
    DAMAGED,
    PLAIN,
    TRANSACTIONAL,
    Kinds,
    join,
)
from broker.status import schema
from jobs.batches import Batches, Bools, Ints
from jobs.holes import below
from jobs.stuck import Stop

Lost = Sequence[tuple[int, int]]
"""Offset of a batch, ascending, and how many offsets were lost right before it."""


def decided(chunks: Sequence[Batches], lost: Lost = ()) -> list[Batches]:
    """The batches before the first that is open or damaged, with what of them counts.

    ``chunks`` are those of one partition from the end of its table on.
    """
    if all(chunk.kinds is None for chunk in chunks):
        return list(chunks)
    kinds = _specials(chunks)
    of_transactions = np.flatnonzero(kinds.kind != PLAIN)
    bases = np.concatenate([chunk.base for chunk in chunks])
    lost_below = _lost_below(chunks, kinds, lost)[of_transactions]
    ends = _ended_by(kinds.cut(of_transactions), bases[of_transactions], lost_below)
    counts = np.ones(len(kinds.kind), np.bool_)
    counts[of_transactions] = ends == COMMIT
    first_open = of_transactions[ends == TRANSACTIONAL][:1]
    bounds = np.cumsum([len(chunk) for chunk in chunks])
    judged = [
        chunk if count.all() else replace(chunk, counts=count)
        for chunk, count in zip(chunks, np.split(counts, bounds[:-1]), strict=True)
    ]
    if not len(first_open):
        return judged
    return below(judged, int(bases[first_open[0]]))


def open_from(chunks: Sequence[Batches], judged: Sequence[Batches]) -> Batches | None:
    """Of the chunk in which what is ``judged`` of them ends, the batches from there on:
    the first one waits for a marker. None: none does."""
    at = sum(map(len, judged))
    for chunk in chunks:
        if at < len(chunk):
            return chunk.cut(at, len(chunk))
        at -= len(chunk)
    return None


def undecidable(chunks: Sequence[Batches], judged: Sequence[Batches]) -> Stop | None:
    """Which damage ends what is ``judged`` of the chunks; None: none does."""
    end = judged[-1].base[-1] if judged else -1
    for chunk in chunks:
        kinds = chunk.kinds
        if kinds is None:
            continue
        for at in np.flatnonzero(kinds.kind == DAMAGED):
            base = int(chunk.base[at])
            if base > end:
                before = below(chunks, base)
                stop = Stop(
                    f"segment {chunk.sequence}: the batch at offset {base} is damaged "
                    "and may be a marker, so it is not known what ended there",
                    int(chunk.last[at]) + 1,
                    put_back=schema.DAMAGED,
                )
                stop = stop.before_open(open_end(before, judged))
                return _lost_marker(before, judged) or stop
    return _lost_marker(chunks, judged)


def open_end(chunks: Sequence[Batches], judged: Sequence[Batches]) -> int | None:
    """Where in the chunks the first batch ends that waits for a marker. None: none
    does. What its transaction has behind it is not meant: whole records of others may
    stand between."""
    waiting = open_from(chunks, judged)
    return None if waiting is None else int(waiting.last[0]) + 1


def _lost_marker(chunks: Sequence[Batches], judged: Sequence[Batches]) -> Stop | None:
    """Says that the transaction which ends what is ``judged`` lost its marker: its
    producer has begun another; None: it may come."""
    waiting = open_from(chunks, judged)
    if waiting is None or waiting.kinds is None:
        return None
    base, (_, producer, epoch, _) = int(waiting.base[0]), waiting.kinds.cut(0)
    for chunk in chunks:
        kinds = chunk.kinds
        if kinds is None:
            continue
        is_above = kinds.epoch - epoch + (kinds.kind == TRANSACTIONAL) > 1
        is_said = kinds.start > base
        if ((is_above | is_said) & (kinds.producer == producer)).any():
            return Stop(
                f"segment {waiting.sequence}: the marker of the transaction that "
                f"begins at offset {base} is lost, so it is not known whether its "
                "records count",
                int(waiting.last[0]) + 1,
            )
    return None


def _specials(chunks: Sequence[Batches]) -> Kinds:
    """The kinds of all batches, of which some are not plain."""
    found = join([(len(chunk), chunk.kinds) for chunk in chunks])
    return found or Kinds(*np.zeros((4, sum(map(len, chunks))), np.int16))


def _lost_below(chunks: Sequence[Batches], kinds: Kinds, lost: Lost) -> Ints:
    """How many offsets were lost before each batch, with its own if it is damaged."""
    base = np.concatenate([chunk.base for chunk in chunks])
    last = np.concatenate([chunk.last for chunk in chunks])
    damaged = np.cumsum(np.where(kinds.kind == DAMAGED, last - base + 1, 0))
    places = np.array([offset for offset, _ in lost], np.int64)
    sums = np.cumsum([0, *(count for _, count in lost)])
    found: Ints = damaged + sums[np.searchsorted(places, base, "right")]
    return found


def _ended_by(kinds: Kinds, bases: Ints, lost_below: Ints) -> npt.NDArray[np.uint8]:
    """For each record batch the kind of its producer's next marker, COMMIT or ABORT;
    TRANSACTIONAL if there is none yet, or if that one does not decide it, and for a
    damaged one. A marker, or another control batch: ABORT."""
    count = len(kinds.kind)
    whose = np.where(kinds.kind == DAMAGED, -1, kinds.producer)
    by_producer = np.argsort(whose, kind="stable")
    kind, producer, *_ = ordered = kinds._replace(producer=whose).cut(by_producer)
    is_marker = (kind == COMMIT) | (kind == ABORT)
    places = np.where(is_marker, np.arange(count), count)
    following = np.minimum.accumulate(places[::-1])[::-1]
    there = np.minimum(following, count - 1)
    is_ended = (
        (following < count)
        & (producer[there] == producer)
        & _decides(ordered, bases[by_producer], lost_below[by_producer], there)
    )
    ended = np.where(is_ended, kind[there], TRANSACTIONAL).astype(np.uint8)
    ended[kind != TRANSACTIONAL] = ABORT
    ended[kind == DAMAGED] = TRANSACTIONAL
    result = np.empty(count, np.uint8)
    result[by_producer] = ended
    return result


def _decides(kinds: Kinds, bases: Ints, lost_below: Ints, there: Ints) -> Bools:
    """Of batches by producer, whether the marker that stands ``there`` decides each,
    should it be of the same producer."""
    newest, epoch, start = np.maximum(there - 1, 0), kinds.epoch, kinds.start[there]
    between = lost_below[there] - lost_below
    is_again = (between == 1) & (lost_below[newest] == lost_below)
    is_its = ((between == 0) | is_again) & (epoch[there] - epoch <= 1)
    decides: Bools = np.where(start >= 0, bases >= start, is_its)
    decides &= epoch[newest] == epoch
    return decides
