"""The log of one partition, as far as it is decided without a disk.

The problem. A batch gets its offset when it arrives, is on disk some milliseconds
later, and hundreds of others arrive meanwhile. In between it must be nowhere to be
seen, and it may still be refused.

The idea. Three verbs. ``admit`` decides: is it the producer's next batch? and gives
offsets away. ``commit`` makes it visible, once it is durable. ``abandon`` takes it
back, when the writer refused it. Committing and abandoning come in the order of
admission, which is how the write-ahead log calls back; so the durable end only moves
forward, and nothing beyond it is in the index.

An abandoned batch leaves no trace if nothing was admitted after it: its offsets are
given away again. Otherwise they stay empty, which Kafka's clients know from compaction.
The durable end is always the end of a batch, never of a hole, so that what a consumer
was told before a crash holds after it.

The price of committing, index included, is about two microseconds.
"""

from collections.abc import Collection
from typing import Any, Final, NamedTuple

from broker.ids import ProducerId
from broker.log.index import BatchIndex
from broker.log.lost import Lost
from broker.log.offsets import LogOffsets
from broker.log.producers import Duplicate, Producers
from broker.log.transactions import AbortedTransaction, Transactions
from broker.log.undecided import Ending, undecided_by
from broker.protocol.errors import ErrorCode, KafkaError
from broker.records.batch import BatchHeader
from broker.records.layout import TRANSACTIONAL_BIT
from broker.records.markers import Marker

HELD_HOLES_MAX: Final = 100
"""So many holes are known below the first batch that is read in segments. A segment
that others hold for months must not fill memory and checkpoints with what was refused
since; what is forgotten is taken for a loss where the table cannot be read."""

Hole = tuple[int, int]
"""Offsets [first, end) that were given to a batch which was refused."""


class LogSnapshot(NamedTuple):
    """What a checkpoint keeps of a partition: the rest is in segments and tables.

    ``holes`` is None where an older version wrote it: it did not tell, and has batches
    among the producers' that were not durable yet.
    """

    durable: int
    producers: bytes
    holes: tuple[Hole, ...] | None = ()
    transactions: bytes = b""


class PartitionLog:
    """Offsets, producers, transactions and index of one partition."""

    __slots__ = (
        "decided_end", "has_forgotten", "holes", "index", "known_end", "left_from",
        "lost", "offsets", "producers", "transactions",
    )  # fmt: skip

    def __init__(
        self, start: int = 0, durable: int | None = None, *, has_forgotten: bool = False
    ) -> None:
        self.offsets = LogOffsets(start, durable)
        self.producers = Producers(has_forgotten=has_forgotten)
        self.transactions = Transactions()
        self.index = BatchIndex()
        self.known_end = 0
        """Below it the checkpoint of the last start knew of all transactions."""
        self.decided_end = 0
        """Below it no checkpoint does, and all are decided, or deleted."""
        self.has_forgotten = has_forgotten
        """Whether this start does not know who wrote what is in the table alone."""
        self.left_from: int | None = None  # the last start saw nothing released behind
        self.holes: list[Hole] = []
        """Of those that may lie beyond the table's end: the newest ones."""
        self.lost: list[Lost] = []
        """What no segment has between two batches of the index; the table may."""

    @property
    def start(self) -> int:
        """The first offset that may be read."""
        return self.offsets.start

    @property
    def stable(self) -> int:
        """The last stable offset: below it no transaction is open."""
        return self.offsets.stable

    @property
    def durable(self) -> int:
        """The high watermark."""
        return self.offsets.durable

    @property
    def next(self) -> int:
        """The offset that the next batch gets."""
        return self.offsets.next

    @property
    def first_in_segments(self) -> int:
        """The base of the first batch in segments; the durable end if there is none."""
        first = self.index.first_offset
        return self.offsets.durable if first is None else first

    def admit(
        self, header: BatchHeader, now_ms: int, *, starts_at_zero: bool = False
    ) -> int | Duplicate:
        """Place a batch that ``check_produced`` has passed; its base offset.

        A duplicate is answered with the offsets of its first coming, once the log is
        durable beyond its last one; in a transaction, if that is the same. Where the
        broker stamps the time, the header is that after stamping. ``starts_at_zero``: a
        producer that is not known must begin with its first sequence, as every
        transaction of version 2 does.

        Whether a transactional batch belongs to a transaction that its coordinator
        knows is for the caller to check.

        Raises KafkaError: OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH,
        UNKNOWN_PRODUCER_ID (a batch of a transaction that has ended),
        INVALID_TXN_STATE (a plain batch inside a transaction); then nothing has
        changed.
        """
        offsets = self.offsets
        base = offsets.next
        if header.producer_id >= 0:
            try:
                duplicate = self.producers.check(header, starts_at_zero=starts_at_zero)
            except KafkaError:
                self._check_given_again(header)
                raise
            if duplicate is not None:
                self._check_again(header, duplicate)
                return duplicate
            if header.attributes & TRANSACTIONAL_BIT:
                self.transactions.admit(base, header.producer_id)
            elif header.producer_id in self.transactions.admitted:
                raise _outside_its_transaction(header)
            self.producers.record(header, base, now_ms)
        offsets.assign(base + header.last_offset_delta + 1)
        return base

    def _check_again(self, header: BatchHeader, duplicate: Duplicate) -> None:
        """Whether a batch that was admitted before may be answered as it was then.

        Who ends a transaction has the answers to its batches, or gave them up: then
        librdkafka gives the sequences of these to the first records of the next one.
        Those are no duplicates, and said to be there they would be lost. Kafka says
        that they are, and refuses the batch behind them (``VerificationStateEntry``).
        """
        if not header.attributes & TRANSACTIONAL_BIT:
            return
        first = self.transactions.admitted.get(header.producer_id)
        if first is None or duplicate.base_offset < first:
            raise _of_an_earlier_transaction(header)

    def _check_given_again(self, header: BatchHeader) -> None:
        """The same of a batch out of order that begins within one of those before."""
        if (
            header.attributes & TRANSACTIONAL_BIT
            and header.producer_id not in self.transactions.admitted
            and self.producers.had(header)
        ):
            raise _of_an_earlier_transaction(header)

    def admit_marker(
        self, producer_id: ProducerId, epoch: int, *, bumps: bool = False
    ) -> int:
        """Place the marker that ends a producer's transaction, if one is open; its
        offset. ``bumps``: its epoch must be higher than that of the records (KIP-890),
        or the marker is one that was written before.

        Raises KafkaError INVALID_PRODUCER_EPOCH; then nothing has changed.
        """
        is_open = producer_id in self.transactions.admitted
        self.producers.check_marker(producer_id, epoch, bumps=bumps and is_open)
        base = self.offsets.next
        self.transactions.admit(base, producer_id, ends=True)
        self.offsets.assign(base + 1)
        return base

    def commit(
        self, base: int, last: int, max_timestamp: int, location: int, length: int
    ) -> None:
        """The batch, which is of no transaction, is on disk: from now on it is read."""
        offsets = self.offsets
        if base != offsets.durable:
            self._note_hole(offsets.durable, base)
        self.index.append(base, last, max_timestamp, location, length)
        if self.transactions.open:
            offsets.move(durable=last + 1)
        else:
            offsets.advance(last + 1)

    def commit_transactional(
        self,
        base: int,
        header: BatchHeader,
        location: int,
        length: int,
        marker: Marker | None = None,
    ) -> None:
        """The batch of a transaction is on disk, or its marker: it is read from now on,
        by those who read what is committed once the last stable offset is behind it."""
        last = base + header.last_offset_delta
        if base != self.offsets.durable:
            self._note_hole(self.offsets.durable, base)
        self.index.append(base, last, header.max_timestamp, location, length)
        if marker is None:
            self.transactions.separate(base, header)
            self.transactions.commit(base)
        else:
            start = self._start_of(base, header, marker)
            self.transactions.commit(base, commits=marker.commit, start=start)
            self._mark_at(header, header.max_timestamp)
        self.offsets.move(durable=last + 1, stable=self._stable_below(last + 1))

    def _start_of(self, base: int, header: BatchHeader, marker: Marker) -> int | None:
        """The first offset that a marker decides. None: it does not say so, and it is
        noted what another that is lost may have ended before."""
        start, producer_id = marker.start(base), header.producer_id
        first = self.transactions.open.get(producer_id)
        if start is not None or first is None:
            return start
        self.transactions.separate(base, header, ends=True)
        if self.lost and producer_id in self.transactions.open:
            epoch, newest = self.producers.newest(producer_id)
            ending = Ending(first, newest, base, header.producer_epoch - epoch)
            undecided = undecided_by(ending, self.lost)
            if undecided is not None:
                self.transactions.undecided.append(undecided)
        return None

    def _note_hole(self, durable: int, base: int) -> None:
        """Batches before ``base`` were refused."""
        assert base > durable, "committed in the order of admission"
        self.holes.append((durable, base))

    def _mark_at(self, header: BatchHeader, now_ms: int) -> None:
        self.producers.mark(header.producer_id, header.producer_epoch, now_ms)

    def _stable_below(self, durable: int) -> int:
        """The last stable offset, if all below ``durable`` is durable."""
        first = self.transactions.first_open
        return durable if first is None else max(first, self.offsets.start)

    def abandon(
        self, base: int, last: int, producer_id: ProducerId | None = None
    ) -> None:
        """The batch was refused: it never was.

        Its offsets are given away again if nothing was admitted after it, so whoever
        waits for them waits for the batch, not for the number. With the producer's id
        (-1: none) only that producer is asked.
        """
        offsets = self.offsets
        assert offsets.durable <= base <= last < offsets.next
        if producer_id is None or producer_id >= 0:
            self.producers.abandon(base, producer_id)
            self.transactions.abandon(base)
        if last + 1 == offsets.next:
            offsets.move(next_offset=offsets.durable)

    def move_start(self, offset: int) -> bool:
        """Records below ``offset`` are deleted. False if they already were.

        Raises AssertionError above the durable end: the caller has checked.
        """
        if offset <= self.offsets.start:
            return False
        self.offsets.move(start=offset, stable=max(self.offsets.stable, offset))
        self.index.trim_below(offset)
        self.transactions.trim(offset)
        self.holes = [hole for hole in self.holes if hole[1] > offset]
        self.lost = [lost for lost in self.lost if lost.end > offset]
        return True

    def snapshot(self) -> LogSnapshot:
        """What is committed, for a checkpoint; the rest is replayed if it is there."""
        durable = self.offsets.durable
        producers, transactions = self.producers, self.transactions.snapshot()
        holes = tuple(self.holes)
        return LogSnapshot(durable, producers.snapshot(durable), holes, transactions)

    def aborted(self, start: int, end: int) -> list[AbortedTransaction]:
        """What a reader of committed records in ``[start, end)`` has to leave out, by
        first offset; ``end`` is stable. What segments have no longer is not in it: the
        table has no such records."""
        return self.transactions.aborted(start, end)

    def open_since(self, producer_id: ProducerId) -> tuple[int, int] | None:
        """First offset and epoch of a producer's open transaction; None: none is."""
        first = self.transactions.open.get(producer_id)
        epoch = self.producers.epoch(producer_id)
        return None if first is None or epoch is None else (first, epoch)

    def expire_producers(self, now_ms: int, ttl_ms: int) -> int:
        """Forget producers that have been silent for ``ttl_ms``, but for those with an
        open transaction. Returns how many."""
        return self.producers.expire(now_ms, ttl_ms, self.transactions.admitted)

    def is_in_segments(self, offset: int) -> bool:
        """Whether all from ``offset`` to the next that is lost, or to the index's end,
        is in segments, but for refused batches. Behind that end nothing is."""
        index = self.index
        first, end = index.first_offset, index.end_offset
        if first is None or end is None or not first <= offset < end:
            return False
        lost = self.next_lost(offset) if self.lost else None
        return lost is None or offset < lost.first

    def next_lost(self, offset: int) -> Lost | None:
        """The first offsets that are lost and do not end before ``offset``."""
        return next((lost for lost in self.lost if offset < lost.end), None)

    def hole_end(self, offset: int) -> int | None:
        """The end of the refused batches at ``offset``; None: a record was there."""
        ends = (end for first, end in self.holes if first <= offset < end)
        return next(ends, None)

    def release(self, sequence: int, held: int | None = None) -> None:
        """Segment ``sequence`` was released: the table has what was in it. ``held``:
        the first offset that others have, be it read there or not."""
        self.index.release(sequence)
        self._forget_released(held)

    def move(
        self, old: Any, new: Any, left: Collection[int], held: int | None = None
    ) -> None:
        """Batches were carried out of the segments ``left``, from the locations ``old``
        to ``new``; the table has what else was in these. ``held`` as in `release`."""
        self.index.move(old, new, left)
        self._forget_released(held)

    @property
    def outlasts_release(self) -> bool:
        """Whether anything is remembered that is to be forgotten with the last segment
        that has records around it."""
        return self.transactions.outlasts_release or bool(self.holes)

    def _forget_released(self, held: int | None) -> None:
        """Holes before the table's end, but for the newest, and what was aborted: that
        in no segment, since a start that cannot read the table reads all of these."""
        end = self.first_in_segments
        lowest = end if held is None else min(end, held)
        self.transactions.trim(end, lowest)
        self.lost = [lost for lost in self.lost if lost.end > end]
        # One hole may lie between the table's end and the first batch that is left.
        below = sorted(hole for hole in self.holes if hole[1] <= end)
        if len(below) > 1:
            kept = [hole for hole in below[:-1] if hole[1] >= lowest]
            kept = kept[-HELD_HOLES_MAX:] + below[-1:]
            self.holes = kept + [hole for hole in self.holes if hole[1] > end]

    def replay(
        self, header: BatchHeader, now_ms: int, marker: Marker | None = None
    ) -> None:
        """Take up an entry: what it says of its producer and of its transaction, unless
        that is known. ``marker``: what a control batch says."""
        assert header.last_offset < self.offsets.durable
        is_transactional = bool(header.attributes & TRANSACTIONAL_BIT)
        if is_transactional and header.base_offset < self.known_end:
            return
        if header.producer_id >= 0 and not header.is_control:
            is_left = self.has_forgotten and header.base_offset < (self.left_from or 0)
            self.producers.replay(header, now_ms, may_be_followed=is_left)
        if is_transactional and (marker is not None or not header.is_control):
            self._replay_transactional(header, now_ms, marker)

    def _replay_transactional(
        self, header: BatchHeader, now_ms: int, marker: Marker | None
    ) -> None:
        base = header.base_offset
        if marker is None and base < self.decided_end:
            self.transactions.replay_decided(base, header)
            return
        start = commits = None
        if marker is None:
            self.transactions.separate(base, header)
        else:
            start, commits = self._start_of(base, header, marker), marker.commit
            self._mark_at(header, now_ms)
        self.transactions.replay(base, header, commits=commits, start=start)
        self.restore_stable()

    def end_replay(self) -> None:
        """All entries were taken up. Of what the table decided and no marker says, who
        has the next checkpoint asks the table, too."""
        transactions, below = self.transactions, self.decided_end
        if transactions.outlived_markers and below > self.start:
            transactions.forgotten_below = max(transactions.forgotten_below, below)

    def restore_stable(self) -> None:
        """At a start all is durable that is there: stable is what is not open."""
        self.offsets.restore_stable(self._stable_below(self.durable))


def _of_an_earlier_transaction(header: BatchHeader) -> KafkaError:
    """Behind this code librdkafka aborts and goes on under the next epoch; one that is
    out of order ends it for good."""
    return KafkaError(
        ErrorCode.UNKNOWN_PRODUCER_ID,
        f"Producer {header.producer_id} has no batch with sequence "
        f"{header.base_sequence} in this transaction, but in one that has ended",
    )


def _outside_its_transaction(header: BatchHeader) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_TXN_STATE,
        f"Expected transactional write from producer {header.producer_id}",
    )
