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

Batches that do not count stay in their chunks, so that a range has no gap; they have no
rows. Pure.

The price: a sort of the transactional batches by producer, about a tenth of a
microsecond each, whenever the compactor looks and something has changed.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from broker.records.kinds import ABORT, COMMIT, DAMAGED, PLAIN, TRANSACTIONAL
from jobs.holes import below
from jobs.planner import Batches


def decided(chunks: Sequence[Batches]) -> list[Batches]:
    """The batches before the first that is open or damaged, with what of them counts.

    ``chunks`` are those of one partition from the end of its table on.
    """
    if all(chunk.kinds is None for chunk in chunks):
        return list(chunks)
    kinds, producers = _specials(chunks)
    of_transactions = np.flatnonzero(kinds != PLAIN)
    ends = _ended_by(kinds[of_transactions], producers[of_transactions])
    counts = np.ones(len(kinds), np.bool_)
    counts[of_transactions] = ends == COMMIT
    first_open = of_transactions[ends == TRANSACTIONAL][:1]
    bounds = np.cumsum([len(chunk) for chunk in chunks])
    judged = [
        chunk if count.all() else replace(chunk, counts=count)
        for chunk, count in zip(chunks, np.split(counts, bounds[:-1]), strict=True)
    ]
    if not len(first_open):
        return judged
    bases = np.concatenate([chunk.base for chunk in chunks])
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


def undecidable(chunks: Sequence[Batches], judged: Sequence[Batches]) -> str | None:
    """Which damage ends what is ``judged`` of the chunks, in words; None: none does."""
    end = judged[-1].base[-1] if judged else -1
    for chunk in chunks:
        kinds = chunk.kinds
        damaged = [] if kinds is None else chunk.base[kinds.kind == DAMAGED]
        for base in damaged:
            if base > end:
                return (
                    f"segment {chunk.sequence}: the batch at offset {base} is damaged "
                    "and may be a marker, so it is not known what ended there"
                )
    return None


def _specials(chunks: Sequence[Batches]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """The kind of each batch, and its producer if it is not plain."""
    kinds = [
        np.full(len(chunk), PLAIN, np.uint8) if chunk.kinds is None else chunk.kinds[0]
        for chunk in chunks
    ]
    producers = [
        np.full(len(chunk), -1, np.int64) if chunk.kinds is None else chunk.kinds[1]
        for chunk in chunks
    ]
    return np.concatenate(kinds), np.concatenate(producers)


def _ended_by(
    kinds: npt.NDArray[Any], producers: npt.NDArray[Any]
) -> npt.NDArray[np.uint8]:
    """For each record batch the kind of its producer's next marker, COMMIT or ABORT;
    TRANSACTIONAL if there is none yet, or if a damaged one lies in between, and for
    that one. A marker, or another control batch: ABORT."""
    count = len(kinds)
    by_producer = np.argsort(producers, kind="stable")
    kind, producer = kinds[by_producer], producers[by_producer]
    is_marker = (kind == COMMIT) | (kind == ABORT)
    places = np.where(is_marker, np.arange(count), count)
    following = np.minimum.accumulate(places[::-1])[::-1]
    there = np.minimum(following, count - 1)
    damaged = np.cumsum(kinds == DAMAGED)[by_producer]
    is_ended = (
        (following < count)
        & (producer[there] == producer)
        & (damaged[there] == damaged)
    )
    ended = np.where(is_ended, kind[there], TRANSACTIONAL).astype(np.uint8)
    ended[kind != TRANSACTIONAL] = ABORT
    ended[kind == DAMAGED] = TRANSACTIONAL
    result = np.empty(count, np.uint8)
    result[by_producer] = ended
    return result
