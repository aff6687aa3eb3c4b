"""What of a partition's batches is decided, and what of that counts.

The problem: a record of a transaction counts or not by a marker that comes later, and
the compactor asks no broker. The idea: from the table's end on it has all batches, in
their order. Those of a producer's transaction wait for that producer's next marker,
which commits or aborts them. Where the first stands that has none yet, the partition's
stable part ends. A table never ends inside an open transaction, so none began below it;
of an aborted one that did, the part below was left out before.

Batches that do not count stay in their chunks, so that a range has no gap; they have no
rows. Pure.

The price: each batch of a transaction is looked at, a few tenths of a microsecond,
whenever the compactor looks what is pending.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from broker.records.kinds import ABORT, COMMIT, PLAIN, TRANSACTIONAL
from jobs.holes import below
from jobs.planner import Batches

Place = tuple[int, int]
"""A batch: its chunk, and which it is there."""


def decided(chunks: Sequence[Batches]) -> list[Batches]:
    """The batches before the first open transaction, with what of them counts.

    ``chunks`` are those of one partition from the end of its table on.
    """
    if all(chunk.kinds is None for chunk in chunks):
        return list(chunks)
    counts = [np.ones(len(chunk), np.bool_) for chunk in chunks]
    opened: dict[int, list[Place]] = {}
    for number, chunk in enumerate(chunks):
        if chunk.kinds is None:
            continue
        kinds, producers = chunk.kinds
        for at in np.flatnonzero(kinds != PLAIN).tolist():
            kind, producer = int(kinds[at]), int(producers[at])
            if kind == TRANSACTIONAL:
                opened.setdefault(producer, []).append((number, at))
                continue
            counts[number][at] = False
            ended = opened.pop(producer, []) if kind in (ABORT, COMMIT) else []
            for place, batch in ended if kind == ABORT else ():
                counts[place][batch] = False
    judged = [
        chunk if all_count.all() else replace(chunk, counts=all_count)
        for chunk, all_count in zip(chunks, counts, strict=True)
    ]
    firsts = [int(chunks[place].base[at]) for (place, at), *_ in opened.values()]
    return below(judged, min(firsts)) if firsts else judged
