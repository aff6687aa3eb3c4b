"""What batches are, as far as transactions go: read off many headers at once.

The problem: who reads a segment without the broker has to leave out what was aborted,
and what only says so. Nothing but the batches tells, and looking at each costs more
than all else that is done with it. The idea: where the batches lie is known in columns,
so the one byte of each header that tells plain batches from others is gathered in one
go. Only if some are of transactions, their producers are gathered as well, and of
markers what they say.

The price: a page of the segment is touched for each batch. For columns of a memory map,
that is: out of an object store one would rather keep this in the footer.
"""

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from broker.records.layout import (
    ATTRIBUTES_AT,
    CONTROL_BIT,
    HEADER_BYTES,
    PRODUCER_ID_AT,
    TRANSACTIONAL_BIT,
)

PLAIN: Final = 0
TRANSACTIONAL: Final = 1
ABORT: Final = 2
COMMIT: Final = 3
CONTROL: Final = 4
"""Another control batch: it has no rows, and ends nothing."""

_FLAGS_AT: Final = ATTRIBUTES_AT + 1
_TYPE_AT: Final = HEADER_BYTES + 7
"""Of a marker's key, behind five lengths and deltas of one byte and its version."""

Ints = npt.NDArray[np.int64]


class Kinds(NamedTuple):
    """Of each batch its kind, and its producer if that is not plain."""

    kind: npt.NDArray[np.uint8]
    producer: Ints

    def cut(self, some: Any) -> "Kinds":
        """Those of a slice, or of an array of bools."""
        return Kinds(self.kind[some], self.producer[some])


def kinds_of(view: memoryview, positions: Ints) -> Kinds | None:
    """The kinds of the batches at these positions; None if all of them are plain."""
    data = np.frombuffer(view, np.uint8)
    flags = data[positions + _FLAGS_AT]
    special = np.flatnonzero(flags & (TRANSACTIONAL_BIT | CONTROL_BIT))
    if not len(special):
        return None
    kind = np.zeros(len(positions), np.uint8)
    producer = np.full(len(positions), -1, np.int64)
    at = positions[special]
    kind[special] = TRANSACTIONAL
    producer[special] = _numbers(data, at + PRODUCER_ID_AT, ">i8")
    control = special[(flags[special] & CONTROL_BIT) != 0]
    said = _numbers(data, positions[control] + _TYPE_AT, ">i2")
    kind[control] = np.select([said == 0, said == 1], [ABORT, COMMIT], CONTROL)
    return Kinds(kind, producer)


def join(parts: "list[tuple[int, Kinds | None]]") -> Kinds | None:
    """The kinds of runs of batches, each with its length, as those of one."""
    if not any(kinds is not None and kinds.kind.any() for _, kinds in parts):
        return None
    whole = [
        kinds or Kinds(np.zeros(count, np.uint8), np.full(count, -1, np.int64))
        for count, kinds in parts
    ]
    return Kinds(
        np.concatenate([one.kind for one in whole]),
        np.concatenate([one.producer for one in whole]),
    )


def _numbers(data: Any, positions: Ints, form: str) -> Ints:
    """The big-endian numbers that start at these positions."""
    size = np.dtype(form).itemsize
    gathered = data[positions[:, None] + np.arange(size)]
    numbers: Ints = gathered.reshape(-1).view(form).astype(np.int64)
    return numbers
