"""The log of one partition, as far as it is decided without a disk.

The problem. A batch gets its offset when it arrives, is on disk some milliseconds
later, and hundreds of others arrive meanwhile. In between it must be nowhere to be
seen, and it may still be refused.

The idea. Three verbs. ``admit`` decides: is it the producer's next batch? and gives
offsets away. ``settle`` makes it visible, once it is durable. ``abandon`` takes it
back, when the writer refused it. Settling and abandoning come in the order of
admission, which is how the write-ahead log calls back; so the durable end only moves
forward, and nothing beyond it is in the index.

An abandoned batch leaves no trace if nothing was admitted after it: its offsets are
given away again. Otherwise they stay empty, which Kafka's clients know from compaction.
The durable end is always the end of a batch, never of a hole, so that what a consumer
was told before a crash holds after it.

The price of settling, index included, is about two microseconds.
"""

from typing import Any, NamedTuple

from broker.log.index import BatchIndex
from broker.log.offsets import LogOffsets
from broker.log.producers import Duplicate, Producers
from broker.records.batch import BatchHeader


class Admitted(NamedTuple):
    """The batch has its place; it is not durable yet."""

    base_offset: int


class LogSnapshot(NamedTuple):
    """What a checkpoint keeps of a partition: the rest is in segments and tables."""

    durable: int
    producers: bytes


class PartitionLog:
    """Offsets, producers and index of one partition."""

    __slots__ = ("index", "offsets", "producers")

    def __init__(self, start: int = 0, durable: int | None = None) -> None:
        self.offsets = LogOffsets(start, durable)
        self.producers = Producers()
        self.index = BatchIndex()

    @property
    def start(self) -> int:
        """The first offset that may be read."""
        return self.offsets.start

    @property
    def stable(self) -> int:
        """The last stable offset."""
        return self.offsets.stable

    @property
    def durable(self) -> int:
        """The high watermark."""
        return self.offsets.durable

    @property
    def next(self) -> int:
        """The offset that the next batch gets."""
        return self.offsets.next

    def admit(self, header: BatchHeader, now_ms: int) -> Admitted | Duplicate:
        """Place a batch that ``check_produced`` has passed.

        A duplicate is answered with the offsets of its first coming, once the log is
        durable beyond its last one. Where the broker stamps the time, the header is
        that after stamping.

        Raises KafkaError: OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH; then
        nothing has changed.
        """
        offsets = self.offsets
        base = offsets.next
        if header.producer_id >= 0:
            duplicate = self.producers.check(header)
            if duplicate is not None:
                return duplicate
            self.producers.record(header, base, now_ms)
        offsets.move(next_offset=base + header.last_offset_delta + 1)
        return Admitted(base)

    def settle(
        self, base: int, last: int, max_timestamp: int, location: int, length: int
    ) -> None:
        """The batch is on disk: from now on it is read."""
        offsets = self.offsets
        assert base >= offsets.durable, "settled in the order of admission"
        self.index.append(base, last, max_timestamp, location, length)
        offsets.move(durable=last + 1, stable=last + 1)

    def abandon(self, base: int, last: int, producer_id: int | None = None) -> None:
        """The batch was refused: it never was.

        Its offsets are given away again if nothing was admitted after it, so whoever
        waits for them waits for the batch, not for the number. With the producer's id
        (-1: none) only that producer is asked.
        """
        offsets = self.offsets
        assert offsets.durable <= base <= last < offsets.next
        if producer_id is None or producer_id >= 0:
            self.producers.abandon(base, producer_id)
        if last + 1 == offsets.next:
            offsets.move(next_offset=offsets.durable)

    def move_start(self, offset: int) -> bool:
        """Records below ``offset`` are deleted. False if they already were.

        Raises AssertionError above the durable end: the caller has checked.
        """
        if offset <= self.offsets.start:
            return False
        self.offsets.move(start=offset)
        self.index.trim_below(offset)
        return True

    def snapshot(self) -> LogSnapshot:
        """For a checkpoint that is written behind all that was admitted so far."""
        return LogSnapshot(self.offsets.durable, self.producers.snapshot())

    @classmethod
    def restore(
        cls,
        snapshot: LogSnapshot | None,
        *,
        start: int = 0,
        table_end: int = 0,
        columns: Any = None,
    ) -> "PartitionLog":
        """The log after a start: from checkpoint, table and the segments' entries.

        ``columns`` has the attributes base, last, max_ts, location and length, integer
        columns of all entries that are live. The durable end is the greatest of all
        that is known, so it never falls behind what was visible. Follow with
        ``replay`` for each entry after the checkpoint.
        """
        index = BatchIndex()
        if columns is not None:
            index.extend(
                columns.base,
                columns.last,
                columns.max_ts,
                columns.location,
                columns.length,
            )
        kept = snapshot.durable if snapshot else 0
        log = cls(start, max(start, table_end, kept, index.end_offset or 0))
        log.index = index
        index.trim_below(start)
        if snapshot:
            log.producers = Producers.restore(snapshot.producers)
            for base in log.producers.unconfirmed(max(kept, table_end)):
                if not index.holds(base):  # in flight at the checkpoint, then refused
                    log.producers.abandon(base)
        return log

    def replay(self, header: BatchHeader, now_ms: int) -> None:
        """Take up an entry after the checkpoint: what it says of its producer."""
        assert header.last_offset < self.offsets.durable
        if header.producer_id >= 0:
            self.producers.replay(header, now_ms)
