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

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from broker.records.layout import (
    ATTRIBUTES_AT,
    CONTROL_BIT,
    HEADER_BYTES,
    LENGTH_AT,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    MAGIC_AT,
    PRODUCER_EPOCH_AT,
    PRODUCER_ID_AT,
    TRANSACTIONAL_BIT,
)
from broker.records.markers import (
    COORDINATOR_EPOCH_AT,
    DECIDES_NOTHING,
    MARKER_BYTES,
)

PLAIN: Final = 0
TRANSACTIONAL: Final = 1
ABORT: Final = 2
COMMIT: Final = 3
CONTROL: Final = 4
"""Another control batch: it has no rows, and ends nothing."""
DAMAGED: Final = 5
"""It may have been a marker, and does not verify: nobody knows what it ended."""

_FLAGS_AT: Final = ATTRIBUTES_AT + 1
_TYPE_AT: Final = HEADER_BYTES + 7
"""Of a marker's key, behind five lengths and deltas of one byte and its version."""

Ints = npt.NDArray[np.int64]


class Kinds(NamedTuple):
    """Of each batch its kind, and its producer and epoch if that is not plain; of a
    marker the first offset that it decides, -1 if it does not say."""

    kind: npt.NDArray[np.uint8]
    producer: Ints
    epoch: npt.NDArray[np.int16]
    start: Ints

    def cut(self, some: Any) -> "Kinds":
        """Those of a slice, or of an array of bools."""
        return Kinds(*(column[some] for column in self))


def _all_plain(count: int) -> Kinds:
    none = np.full(count, -1, np.int64)
    kind = np.zeros(count, np.uint8)
    return Kinds(kind, none, none.astype(np.int16), none.copy())


def kinds_of(view: memoryview, positions: Ints) -> Kinds | None:
    """The kinds of the batches at these positions; None if all of them are plain."""
    data = np.frombuffer(view, np.uint8)
    flags = data[positions + _FLAGS_AT]
    special = np.flatnonzero(flags & (TRANSACTIONAL_BIT | CONTROL_BIT))
    if not len(special):
        return None
    found = kind, producer, epoch, start = _all_plain(len(positions))
    at = positions[special]
    kind[special] = TRANSACTIONAL
    producer[special] = _numbers(data, at + PRODUCER_ID_AT, ">i8")
    epoch[special] = _numbers(data, at + PRODUCER_EPOCH_AT, ">i2")
    control = special[(flags[special] & CONTROL_BIT) != 0]
    said = _numbers(data, positions[control] + _TYPE_AT, ">i2")
    kind[control] = np.select([said == 0, said == 1], [ABORT, COMMIT], CONTROL)
    whole = control[positions[control] + MARKER_BYTES <= len(data)]
    start[whole] = _starts(data, positions[whole])
    return found


def _starts(data: Any, at: Ints) -> Ints:
    """Of markers, as ``Marker.start`` has it."""
    epoch = _numbers(data, at + COORDINATOR_EPOCH_AT, ">i4")
    start = _numbers(data, at, ">i8") + epoch - DECIDES_NOTHING
    return np.where(epoch > DECIDES_NOTHING, -1, start)


def verified_kinds_of(
    view: memoryview,
    positions: Ints,
    lengths: Ints,
    is_whole: Callable[[int], bool],
    unread: Iterable[tuple[int, int]] = (),
) -> Kinds | None:
    """As ``kinds_of``, but DAMAGED what may have been a marker and is not whole.

    ``lengths``: what the segment says of them. What is as long as a marker and looks
    like a whole header of something else is believed: one bit does not make it so.
    The first of each producer, and what is of another epoch than its batch before it,
    are looked at as well: by their epochs a marker decides, or not.
    ``unread``: the [start, end) that zeros stand for; these would pass for a plain one.
    """
    found = kinds_of(view, positions)
    suspect = np.zeros(len(positions), np.bool_)
    suspect[_no_headers(view, positions, lengths)] = True
    for first, end in unread:
        suspect |= (positions < end) & (positions + MARKER_BYTES > first)
    if found is not None:
        suspect |= found.kind > TRANSACTIONAL
        suspect |= (found.kind == TRANSACTIONAL) & (lengths == MARKER_BYTES)
        suspect[_of_other_epochs(found)] = True
    at = [one for one in np.flatnonzero(suspect) if not is_whole(int(positions[one]))]
    if not at:
        return found
    if found is None:
        found = _all_plain(len(positions))
    found.kind[at] = DAMAGED
    return found


def _no_headers(view: memoryview, positions: Ints, lengths: Ints) -> Ints:
    """Those as long as a marker whose bytes are not the header of any such batch."""
    data = np.frombuffer(view, np.uint8)
    small = np.flatnonzero(lengths == MARKER_BYTES)
    at = positions[small]
    said = _numbers(data, at + LENGTH_AT, ">i4") + LOG_OVERHEAD_BYTES
    odd: Ints = small[(said != MARKER_BYTES) | (data[at + MAGIC_AT] != MAGIC)]
    return odd


def _of_other_epochs(found: Kinds) -> Ints:
    """Those whose epoch is not that of the batch of their producer before them, if
    there is one."""
    by_producer = np.argsort(found.producer, kind="stable")
    _, producer, epoch, _ = found.cut(by_producer)
    is_other = (np.diff(producer, prepend=-1) != 0) | (np.diff(epoch, prepend=0) != 0)
    others: Ints = by_producer[is_other & (producer >= 0)]
    return others


def join(parts: "list[tuple[int, Kinds | None]]") -> Kinds | None:
    """The kinds of runs of batches, each with its length, as those of one."""
    if not any(kinds is not None and kinds.kind.any() for _, kinds in parts):
        return None
    whole = [kinds or _all_plain(count) for count, kinds in parts]
    return Kinds(
        *(np.concatenate(columns) for columns in zip(*whole, strict=True)),
    )


def _numbers(data: Any, positions: Ints, form: str) -> Ints:
    """The big-endian numbers that start at these positions."""
    size = np.dtype(form).itemsize
    gathered = data[positions[:, None] + np.arange(size)]
    numbers: Ints = gathered.reshape(-1).view(form).astype(np.int64)
    return numbers
