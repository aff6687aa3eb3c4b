"""One partition at work: where the pure log meets the write-ahead segments.

The problem: ten thousand produce requests a second, each of which must get its offset
in order, reach the disk, and be answered when it is there. The idea: appending is two
plain calls (the log admits the batch and gives it an offset, the write-ahead log takes
it) and ends there. When the disk has it, the same object is committed on the loop, in
order, and a callback fills the producer's answer. No task, no lock, no queue of ours.

The price: all of this runs on the event loop's thread and must stay short. What looks
inside a batch (``inspector.py``) runs on the thread that writes.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from broker.fetching.session import FetchSession, SessionPartition
from broker.ids import PartitionNumber, ProducerId, TopicNumber, TopicPartition
from broker.log.index import Span
from broker.log.partition import PartitionLog
from broker.log.producers import Duplicate
from broker.protocol.buffers import Buffer
from broker.protocol.errors import ErrorCode, KafkaError, NotAppended
from broker.records.batch import (
    BatchHeader,
    assign,
    check_produced,
    read_header,
    stamp_log_append_time,
)
from broker.records.layout import HEADER_BYTES, LOG_OVERHEAD_BYTES, TRANSACTIONAL_BIT
from broker.records.markers import Marker, marker_batch, read_marker
from broker.records.recompress import CODECS, Target
from broker.runtime.partitions.overdue import Waiting, timed_out
from broker.runtime.process.status import Counters
from broker.storage.entry import Append
from broker.storage.wal import Wal
from broker.topics.configs import TopicConfig
from broker.topics.topic import SHOWN_NUMBER

LEADER_EPOCH: Final = 0
"""One broker, whose log never loses what was visible: the epoch never changes."""

NO_LEADER_EPOCH: Final = -1

TIMEOUT_MS: Final = 30_000
"""How long who does not say so waits for a disk that does not answer."""

Spans = list[tuple[int, int]]
"""Batches in segments, as (location, length in bytes)."""

Reply = Callable[[int, int, KafkaError | None], None]
"""Told once what became of a batch: base offset, timestamp that the broker stamped
(-1: none), error. At once if it is refused, later if it goes to disk."""


def check_leader_epoch(epoch: int) -> None:
    """Fence a client that knows another leader epoch; -1 asks for no check.

    Raises UNKNOWN_LEADER_EPOCH, or FENCED_LEADER_EPOCH of one that never was (KIP-320).
    """
    if epoch < LEADER_EPOCH and epoch != NO_LEADER_EPOCH:
        raise KafkaError(
            ErrorCode.FENCED_LEADER_EPOCH, f"the leader epoch is {LEADER_EPOCH}"
        )
    if epoch > LEADER_EPOCH:
        raise KafkaError(
            ErrorCode.UNKNOWN_LEADER_EPOCH, f"the leader epoch is {LEADER_EPOCH}"
        )


def bare(error: KafkaError) -> KafkaError:
    """The error without where it was raised.

    A traceback keeps the frames, and they the records, in a circle with whoever keeps
    the error: a client's bad batches would stay in memory until garbage is collected.
    """
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


class Retry:
    """A batch that came again while its original is on its way, and who waits."""

    __slots__ = ("expires_ms", "reply", "timeout_ms")

    def __init__(self, reply: Reply, timeout_ms: int) -> None:
        self.reply = reply
        self.timeout_ms = timeout_ms
        self.expires_ms = -1


class Partition:
    """The log of one partition, its place on disk and whoever waits for it.

    ``committed`` is called when the durable end moved, to wake who waits. ``waiting``:
    the batches of all partitions that are on their way to the disk, in order.
    """

    __slots__ = (
        "_batch_bytes_max",
        "_committed",
        "_counters",
        "_is_stamped",
        "_original_replies",
        "_waiting",
        "_wal",
        "bytes_committed",
        "bytes_fetched",
        "config",
        "deleted",
        "index",
        "log",
        "number",
        "records_committed",
        "target",
        "watchers",
    )  # fmt: skip

    def __init__(
        self,
        number: TopicNumber,
        index: PartitionNumber,
        log: PartitionLog,
        config: TopicConfig,
        wal: Wal,
        counters: Counters,
        committed: Callable[["Partition"], None],
        waiting: deque[Waiting],
    ) -> None:
        self.number: Final = number
        self.index: Final = index
        self.log = log
        self.configure(config)
        self.deleted = False
        self.bytes_committed = self.records_committed = 0
        self.bytes_fetched = 0
        self.watchers: dict[SessionPartition, FetchSession] = {}
        """What of fetch sessions rests on it."""
        self._wal = wal
        self._counters = counters
        self._committed = committed
        self._waiting = waiting
        self._original_replies: dict[int, list[Retry]] = {}

    def configure(self, config: TopicConfig) -> None:
        """Go by the topic's configuration as it is now."""
        self.config = config
        self._batch_bytes_max = config.max_message_bytes
        self._is_stamped = config.log_append_time
        codec = CODECS.get(config.compression_type)
        self.target = None if codec is None else Target(codec, config.compression_level)
        """In what its batches are kept; None: as they come."""

    @property
    def key(self) -> TopicPartition:
        """(topic number, partition): its name inside the broker."""
        return self.number, self.index

    @property
    def high_watermark(self) -> int:
        """The offset after the last that a consumer may read."""
        return self.log.offsets.durable

    @property
    def log_start(self) -> int:
        return self.log.offsets.start

    def append(
        self,
        records: Buffer | None,
        version: int,
        now_ms: int,
        reply: Reply,
        timeout_ms: int = TIMEOUT_MS,
        *,
        in_transaction: bool = False,
        starts_at_zero: bool = False,
    ) -> None:
        """Take a producer's batch. It has its offset when this returns.

        ``in_transaction``: the coordinator has said that the partition belongs to the
        producer's open transaction. ``starts_at_zero``: see the log. ``records`` is
        patched in place and must stay untouched until it is durable or refused: who is
        told that time ran out is told before. ``timeout_ms`` counts while the disk does
        not answer.
        """
        failed = self._wal.refusal
        if failed is not None:
            self.note_attempt(records)
            reply(-1, -1, failed)
            return
        try:
            header = self._checked(records, version, now_ms, in_transaction)
            base = self.log.admit(header, now_ms, starts_at_zero=starts_at_zero)
        except KafkaError as error:
            reply(-1, -1, bare(error))
            return
        if not isinstance(base, int):
            self._reply_as_original(base, reply, timeout_ms)
            return
        assert records is not None
        assert not isinstance(records, bytes)
        self._send(records, header, base, reply, timeout_ms)

    def note_attempt(self, records: Buffer | None) -> None:
        """A batch is refused that may come again: if its producer is not known, none
        that follows it comes first."""
        if records is not None and len(records) >= HEADER_BYTES:
            header = read_header(records)
            if header.producer_id >= 0:
                self.log.producers.note_attempt(header)

    def append_marker(
        self,
        producer_id: ProducerId,
        producer_epoch: int,
        marker: Marker,
        now_ms: int,
        reply: Reply,
        *,
        bumps: bool = False,
        start: int | None = None,
    ) -> None:
        """End a producer's transaction here, as ``append`` takes a batch; a marker
        that was refused may be asked for again. ``bumps``: see the log. ``start``: all
        of the transaction stands there or behind, and nothing else of its producer."""
        failed = self._wal.refusal
        if failed is not None:
            reply(-1, -1, failed)
            return
        try:
            self._check_exists()
            base = self.log.admit_marker(producer_id, producer_epoch, bumps=bumps)
        except KafkaError as error:
            reply(-1, -1, bare(error))
            return
        marker = marker.starting(start, base)
        batch = marker_batch(producer_id, producer_epoch, marker, now_ms)
        self._send(batch, read_header(batch), base, reply, TIMEOUT_MS)

    def _send(
        self,
        records: bytearray | memoryview,
        header: BatchHeader,
        base: int,
        reply: Reply,
        timeout_ms: int,
    ) -> None:
        """Hand a batch that was admitted to the writer."""
        assign(records, base, LEADER_EPOCH)
        one = Waiting(
            self.number,
            self.index,
            records,
            header,
            base,
            base + header.last_offset_delta,
            header.max_timestamp,
            self._finish,
        )
        one.owner, one.reply = self, reply
        one.timeout_ms, one.expires_ms = timeout_ms, -1
        self._waiting.append(one)
        self._wal.append(one)

    def check_stored(self) -> None:
        """Raise INVALID_TOPIC_EXCEPTION for one that is shown and holds nothing."""
        if self.number == SHOWN_NUMBER:
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is internal."
            )

    def _check_exists(self) -> None:
        if self.deleted:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "it was deleted")

    def _checked(
        self, records: Buffer | None, version: int, now_ms: int, in_transaction: bool
    ) -> BatchHeader:
        """The header of a batch that may be admitted, stamped if the topic says so."""
        if self.deleted:
            self._check_exists()
        if self.number == SHOWN_NUMBER:
            self.check_stored()
        if records is None:
            raise NotAppended(ErrorCode.INVALID_RECORD, "there is no batch")
        header = check_produced(
            records, self._batch_bytes_max, version, in_transaction=in_transaction
        )
        if not self._is_stamped:
            return header
        assert not isinstance(records, bytes), "received into memory of our own"
        stamp_log_append_time(records, now_ms)
        return read_header(records)

    def _reply_as_original(
        self, duplicate: Duplicate, reply: Reply, timeout_ms: int
    ) -> None:
        """Answer a retry as its first coming, once that is durable; with its newest
        timestamp whoever stamped it, as Kafka (``UnifiedLog.append``)."""
        stamp = duplicate.timestamp

        def as_original(base: int, _stamp: int, error: KafkaError | None) -> None:
            reply(base, stamp if error is None else -1, error)

        if duplicate.last_offset < self.log.offsets.durable:
            as_original(duplicate.base_offset, stamp, None)
        else:
            waiting = self._original_replies.setdefault(duplicate.base_offset, [])
            waiting.append(Retry(as_original, timeout_ms))

    def expire_retries(self, now_ms: int) -> None:
        """Answer the retries that have waited too long for their original."""
        for retries in list(self._original_replies.values()):
            for retry in retries:
                if retry.expires_ms < 0:
                    retry.expires_ms = now_ms + retry.timeout_ms
            overdue = [one for one in retries if one.expires_ms <= now_ms]
            retries[:] = [one for one in retries if one.expires_ms > now_ms]
            for retry in overdue:
                retry.reply(-1, -1, timed_out())

    def _finish(self, append: Append) -> None:
        """The disk has the batch, or the writer refused it. Called in order."""
        one = self._waiting.popleft()
        assert one is append, "batches are finished in the order of their appends"
        reply = one.reply
        base, error = append.base_offset, append.error
        if error is None:
            stamp = self._commit(append)
            reply(base, stamp, None)
            if not self._original_replies:
                self._committed(self)
                return
        else:
            producer_id = append.header.producer_id
            self.log.abandon(base, append.last_offset, producer_id)
            stamp = -1
            reply(-1, -1, bare(error))
        if self._original_replies:
            for retried in self._original_replies.pop(base, ()):
                retried.reply(base if error is None else -1, stamp, error)
        if error is None:
            self._committed(self)

    def _commit(self, append: Append) -> int:
        """Make the batch readable; the timestamp that the broker stamped, or -1."""
        header = append.header
        length = header.batch_length + LOG_OVERHEAD_BYTES
        if header.attributes & TRANSACTIONAL_BIT:
            self.log.commit_transactional(
                append.base_offset,
                header,
                append.location,
                length,
                read_marker(append.batch) if header.is_control else None,
            )
        else:
            self.log.commit(
                append.base_offset,
                append.last_offset,
                append.max_timestamp,
                append.location,
                length,
            )
        self.bytes_committed += length
        self.records_committed += header.record_count
        counters = self._counters
        counters.batches_in += 1
        counters.records_in += header.record_count
        counters.bytes_in += length
        return header.max_timestamp if header.timestamp_type else -1

    def is_cold(self, offset: int, table_end: int) -> bool:
        """Whether ``offset`` is to be read from the table.

        What segments still hold is read there, even when the table has it too.
        """
        return offset < table_end and not self.log.is_in_segments(offset)

    def end(self, *, committed: bool) -> int:
        """The offset behind the last that may be read; ``committed``: by who reads
        nothing of a transaction that is open."""
        offsets = self.log.offsets
        return offsets.stable if committed else offsets.durable

    def span(
        self, offset: int, bytes_max: int, at_least_one: bool, committed: bool = False
    ) -> Span:
        """The batches in segments from ``offset`` on, within ``bytes_max``; those
        before the next offset that is lost, or that is not to be read."""
        index, lost = self.log.index, self.log.next_lost(offset)
        at, end = index.find(offset), None if lost is None else lost.first
        if committed:
            stable = self.log.offsets.stable
            end = stable if end is None else min(end, stable)
            undecided = self.log.transactions.next_undecided(offset)
            end = end if undecided is None else min(end, undecided.first)
        return index.span(at, bytes_max, end, at_least_one=at_least_one)

    def spans(self, offset: int, bytes_max: int, at_least_one: bool) -> Spans:
        """Where the batches of such a span lie."""
        return self.span(offset, bytes_max, at_least_one).locations

    def available(self, offset: int, table_end: int, committed: bool = False) -> int:
        """About how many bytes a fetch at ``offset`` finds; 0 at the end.

        Where it cannot be known without reading, more than anybody asks for.
        """
        end = self.end(committed=committed)
        if offset >= end:
            return 0
        if self.is_cold(offset, table_end):
            return UNKNOWN_BYTES
        return self.log.index.bytes_between(offset, end) or UNKNOWN_BYTES

    def mark(self, *, committed: bool) -> int:
        """Moves when there is more to be read; see ``grown``."""
        return self.log.offsets.stable if committed else self.bytes_committed

    def grown(self, mark: int, *, committed: bool) -> int:
        """Bytes that may be read since ``mark`` was taken, where it has moved."""
        if not committed:
            return self.bytes_committed - mark
        stable = self.log.offsets.stable
        return self.log.index.bytes_between(mark, stable) or UNKNOWN_BYTES


UNKNOWN_BYTES: Final = 1 << 40
