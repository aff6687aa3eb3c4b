"""The transactions of one partition: which are open, and which were aborted where.

The problem. A reader of committed records may read up to the first record whose
transaction is open, and must leave out what was aborted; neither can be seen in a batch
itself. Both are asked at each fetch, of partitions with thousands of transactions.

The idea (KIP-98). Per producer the first offset of the transaction that is open here:
the smallest of them bounds what is stable, and it is the one that was begun first. And
for each aborted one a row of four numbers: producer, first offset, that of its marker,
and what was stable after it. Rows are in the order of their markers, so the first that
concerns a range is found by binary search; and once what was stable reaches the end of
the range, no later row concerns it.

Beside them stands what no marker decides, since one may be lost (`undecided`).

What is *visible* changes when a batch is durable. What may be *admitted* is known
earlier: a producer whose batch is on its way is inside a transaction. So beside the two
there is the line of what was admitted and is not durable, and what follows from it.

The price. 32 bytes for each aborted transaction whose marker is in segments still; each
fetch inside one that stays open over many others passes the others' numbers as well: a
nanosecond or two for each, not a step of the program.

Source: Kafka's ``ProducerStateManager``, ``TransactionIndex``, ``AbortedTxn``.
"""

import struct
from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from broker.ids import ProducerId
from broker.log.undecided import Undecided
from broker.records.batch import BatchHeader

_FORMAT: Final = 1
_SAID_BY_MARKERS: Final = 3
"""As 2, the first with what is undecided. A program that reads no more than 2 does not
know what a marker says of its start, and its compactor would take for decided what is
not."""
_WITH_FORGOTTEN: Final = 4
"""As 3, and below which offset markers are gone. A program that does not know would
serve what was aborted there."""
_HEAD: Final = struct.Struct(">BII")
_OPEN: Final = struct.Struct(">qq")
_ABORTED: Final = struct.Struct(">qqqq")
_COUNT: Final = struct.Struct(">I")
_FORGOTTEN: Final = struct.Struct(">q")
_UNDECIDED: Final = struct.Struct(">qq")
_NONE: Final = (-1, -1)


class AbortedTransaction(NamedTuple):
    """Records of this producer from this offset on, up to its next marker, do not
    count."""

    producer_id: ProducerId
    first_offset: int


class _InFlight(NamedTuple):
    """A batch of a transaction that was admitted; or the marker that ends it."""

    base_offset: int
    producer_id: ProducerId
    ends: bool


class Transactions:
    """The transactions of one partition."""

    __slots__ = (
        "_decided", "_first", "_in_flight", "_last", "_newest", "_outlived",
        "_producer", "_stable", "admitted", "forgotten_below", "open", "undecided",
    )  # fmt: skip

    def __init__(self) -> None:
        self.open: dict[ProducerId, int] = {}
        """First offset of each open transaction, ascending: of what is durable."""
        self.admitted: dict[ProducerId, int] = {}
        """The same, of all that was admitted."""
        self.undecided: list[Undecided] = []
        """What no marker decides, in the order of the markers that came behind."""
        self.forgotten_below = 0
        """Below it a start without a checkpoint found records in segments whose markers
        may have been released, or may be of others: nobody but the table knows what was
        aborted."""
        self._newest: dict[ProducerId, tuple[int, int]] = {}
        """Of each that is open the epoch, and where its last batch ends."""
        self._decided: dict[ProducerId, tuple[int, int]] = {}
        """First offset and epoch of each whose marker is still to be replayed, or is
        gone: below all that are open, ascending."""
        self._outlived = False
        """Whether any that was among those has no marker, for all that is known."""
        self._in_flight: deque[_InFlight] = deque()
        self._producer = array("q")
        self._first = array("q")
        self._last = array("q")
        self._stable = array("q")

    def __len__(self) -> int:
        return len(self.open) + len(self._last) + len(self.undecided)

    @property
    def first_open(self) -> int | None:
        """The offset at which the oldest open transaction begins; None: none is."""
        for first in self.open.values():
            return first
        return None

    # -- a batch's way ----------------------------------------------------------------

    def admit(self, base: int, producer_id: ProducerId, *, ends: bool = False) -> None:
        """A batch of a transaction, or its marker, was given its place."""
        self._in_flight.append(_InFlight(base, producer_id, ends))
        if ends:
            self.admitted.pop(producer_id, None)
        else:
            self.admitted.setdefault(producer_id, base)

    def commit(
        self, base: int, *, commits: bool | None = None, start: int | None = None
    ) -> None:
        """What was admitted at ``base`` is durable; ``commits`` is what a marker says,
        and ``start`` the first offset that it decides; None: it does not say.

        Batches come here, or to ``abandon``, in the order in which they were admitted.
        """
        one = self._in_flight.popleft()
        assert one.base_offset == base, "in the order of admission"
        assert one.ends is (commits is not None)
        if commits is None:
            self.begin(base, one.producer_id)
        else:
            self.end(base, one.producer_id, commits=commits, start=start)

    def abandon(self, base: int) -> None:
        """What was admitted at ``base`` was refused by the writer, if it is ours."""
        if not self._in_flight or self._in_flight[0].base_offset != base:
            return
        producer_id = self._in_flight.popleft().producer_id
        first = self.open.get(producer_id)
        for other in self._in_flight:
            if other.producer_id != producer_id:
                continue
            if other.ends:
                first = None
            elif first is None:
                first = other.base_offset
        if first is None:
            self.admitted.pop(producer_id, None)
        else:
            self.admitted[producer_id] = first

    def begin(self, base: int, producer_id: ProducerId) -> None:
        """A durable batch is of a transaction: it begins here unless it is open."""
        self.open.setdefault(producer_id, base)

    def end(
        self,
        base: int,
        producer_id: ProducerId,
        *,
        commits: bool,
        start: int | None = None,
    ) -> None:
        """A durable marker ends a transaction; nothing happens if none is open. What is
        open from below ``start`` is another one, whose marker is lost: its records are
        undecided, up to ``start`` if others stand behind."""
        start = start or 0
        first = self.open.pop(producer_id, None)
        _, end = self._newest.pop(producer_id, (0, start))
        if first is not None and first < start:
            self.undecided.append(Undecided(first, min(end, start)))
            first = start if end > start else None
        if first is None or commits:
            return
        decided, _ = next(iter(self._decided.values()), (base + 1, 0))
        begun = self.first_open  # the first of either began first
        self._producer.append(producer_id)
        self._first.append(first)
        self._last.append(base)
        self._stable.append(decided if begun is None else min(begun, decided))

    def separate(self, base: int, header: BatchHeader, *, ends: bool = False) -> None:
        """A batch of a transaction is durable at ``base``, or the marker that ``ends``
        one. If its epoch says that it is of another than the one that is open, the
        marker of that one is lost: its records are undecided."""
        producer_id, epoch = header.producer_id, header.producer_epoch
        known = self._newest.get(producer_id)
        if known is not None and epoch > known[0] + ends:
            self.undecided.append(Undecided(self.open.pop(producer_id), known[1]))
            if producer_id in self.admitted:
                self.admitted[producer_id] = base
        if not ends:
            self._newest[producer_id] = epoch, base + header.last_offset_delta + 1

    def know(self, newest_of: Callable[[ProducerId], tuple[int, int] | None]) -> None:
        """Take the epochs of what is open, as of a checkpoint, and where it ends from
        who knows them."""
        for producer_id in self.open:
            newest = newest_of(producer_id)
            if newest is not None:
                self._newest[producer_id] = newest

    # -- what a reader must know ------------------------------------------------------

    def aborted(self, start: int, end: int) -> list[AbortedTransaction]:
        """The aborted transactions that reach into ``[start, end)``, by first offset.

        ``end`` must be stable. Below the first row after which it was, all rows from
        ``start`` on are looked at in one comparison of numbers: inside a transaction
        that stays open long these are all that were aborted since. What is *built* is
        only what is found, and that is no more than the range has batches, and the
        transactions that were open before it.
        """
        low = bisect_left(self._last, start)
        if low == len(self._last):
            return []
        rows = slice(low, bisect_left(self._stable, end, low) + 1)
        first = np.asarray(memoryview(self._first)[rows])
        at = np.flatnonzero(first < end)
        at = at[np.argsort(first[at], kind="stable")]
        producer = np.asarray(memoryview(self._producer)[rows])
        pairs = zip(producer[at].tolist(), first[at].tolist(), strict=True)
        return list(map(AbortedTransaction._make, pairs))

    @property
    def outlasts_release(self) -> bool:
        """Whether anything is remembered that is to be forgotten with the last segment
        that has records of it."""
        return bool(self._last) or self.forgotten_below > 0

    def trim(self, offset: int, held: int | None = None) -> None:
        """Forget the aborted transactions that end below ``offset``, and below
        ``held`` if that is lower. What was undecided below ``offset`` the table alone
        knows."""
        lowest = offset if held is None else min(offset, held)
        gone = [one.end for one in self.undecided if one.end <= offset]
        self.undecided = [one for one in self.undecided if one.end > offset]
        self.forgotten_below = max(self.forgotten_below, *gone, 0)
        if self.forgotten_below <= lowest:
            self.forgotten_below = 0
        count = bisect_left(self._last, lowest)
        if count:
            for column in (self._producer, self._first, self._last, self._stable):
                del column[:count]

    def next_undecided(self, offset: int) -> Undecided | None:
        """Of what is undecided and does not end before ``offset`` that which begins
        first; None: all is decided."""
        if not self.undecided:
            return None
        return min((one for one in self.undecided if one.end > offset), default=None)

    # -- a start ----------------------------------------------------------------------

    def replay(
        self,
        base: int,
        header: BatchHeader,
        *,
        commits: bool | None = None,
        start: int | None = None,
    ) -> None:
        """Take up a batch that was read back; ``commits`` and ``start`` as above."""
        producer_id = header.producer_id
        if commits is None:
            self.begin(base, producer_id)
            self.admitted.setdefault(producer_id, base)
            return
        first, epoch = self._decided.pop(producer_id, _NONE)
        opened = self.open.get(producer_id, base)
        newest, _ = self._newest.get(producer_id, _NONE)
        # Or of one before, whose marker is gone: newer markers say where theirs begins,
        # and in version 2 each has an epoch, that of its marker is one higher.
        if start is None:
            is_its = opened == base or newest == epoch < header.producer_epoch
        else:
            is_its = opened >= start
        if first >= 0 and is_its:
            self.open[producer_id] = max(first, start or 0)
        if first >= 0:
            is_all = first >= (start or 0) and header.producer_epoch <= epoch + 1
            self._outlived |= not (is_its and is_all)
        self.end(base, producer_id, commits=commits, start=start)
        self.admitted.pop(producer_id, None)

    def replay_decided(self, base: int, header: BatchHeader) -> None:
        """The same of a batch whose fate a table knows: it holds nobody back. Who reads
        it in segments once more must know what its marker says, wherever that is."""
        producer_id, epoch = header.producer_id, header.producer_epoch
        if self._decided.get(producer_id, _NONE)[1] < epoch:
            self._outlived |= self._decided.pop(producer_id, None) is not None
            self._decided[producer_id] = base, epoch

    @property
    def outlived_markers(self) -> bool:
        """Once all is replayed: whether a table knows the fate of anything whose marker
        is lost, or was released, or may be that of another one."""
        return self._outlived or bool(self._decided)

    def snapshot(self) -> bytes:
        """What is durable, as bytes for a checkpoint; empty if there is nothing."""
        if not len(self) and not self.forgotten_below:
            return b""
        version = _SAID_BY_MARKERS if self.undecided else _FORMAT
        version = _WITH_FORGOTTEN if self.forgotten_below else version
        parts = [_HEAD.pack(version, len(self.open), len(self._last))]
        parts.extend(_OPEN.pack(*one) for one in self.open.items())
        rows = zip(self._producer, self._first, self._last, self._stable, strict=True)
        parts.extend(_ABORTED.pack(*row) for row in rows)
        if version != _FORMAT:  # an older program reads what has none
            parts.append(_COUNT.pack(len(self.undecided)))
            parts.extend(_UNDECIDED.pack(*one) for one in self.undecided)
        if version == _WITH_FORGOTTEN:
            parts.append(_FORGOTTEN.pack(self.forgotten_below))
        return b"".join(parts)

    @classmethod
    def restore(cls, payload: bytes) -> "Transactions":
        """What ``snapshot`` gave. Raises ValueError if it is something else."""
        transactions = cls()
        if not payload:
            return transactions
        try:
            version, opened, aborted = _HEAD.unpack_from(payload)
        except struct.error as error:
            raise ValueError("the snapshot of transactions is cut off") from error
        if not _FORMAT <= version <= _WITH_FORGOTTEN:
            raise ValueError(f"a snapshot of transactions of format {version}")
        rows = _HEAD.size + opened * _OPEN.size
        end = rows + aborted * _ABORTED.size
        if version == _WITH_FORGOTTEN:
            payload, last = payload[: -_FORGOTTEN.size], payload[-_FORGOTTEN.size :]
            (transactions.forgotten_below,) = _FORGOTTEN.unpack(last)
        if version != _FORMAT:
            transactions.undecided = _unpack_undecided(payload[end:])
        elif len(payload) != end:
            raise ValueError("the snapshot of transactions has another length")
        transactions.open.update(_OPEN.iter_unpack(payload[_HEAD.size : rows]))
        transactions.admitted.update(transactions.open)
        for producer_id, first, last, stable in _ABORTED.iter_unpack(payload[rows:end]):
            transactions._producer.append(producer_id)
            transactions._first.append(first)
            transactions._last.append(last)
            transactions._stable.append(stable)
        return transactions


def _unpack_undecided(payload: bytes) -> list[Undecided]:
    count, rows = payload[: _COUNT.size], payload[_COUNT.size :]
    if (
        len(count) < _COUNT.size
        or len(rows) != _COUNT.unpack(count)[0] * _UNDECIDED.size
    ):
        raise ValueError("the snapshot of transactions has another length")
    return list(map(Undecided._make, _UNDECIDED.iter_unpack(rows)))
