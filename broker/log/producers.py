"""What a partition remembers of its idempotent producers.

The problem. A producer that got no answer sends its batch again; the broker must not
append it twice, must answer the second time what it would have answered the first, and
must refuse a batch that overtook one that was lost. All of it within a microsecond.

The idea (KIP-98; Kafka's ``ProducerStateManager``, ``ProducerAppendInfo``). A producer
numbers its records. Per producer the log keeps its epoch, the last sequence, and its
last five batches: a producer has at most five requests in flight, so a retry is always
among them. The next batch continues the sequence; a batch among the five is a
duplicate; anything else is out of order.

State is taken down when a batch is *admitted*, not when it is durable, since the next
ones of the pipeline arrive before. Should a batch then be refused by the writer,
``abandon`` takes it back, so that a retry of it is not mistaken for a duplicate.

The price. 460 bytes per producer and partition after one batch, 1,140 after five, until
it has been silent for ``producer.id.expiration.ms``. A producer that is not known,
because it is new or was expired, may start with any sequence, as in Kafka; one in a
transaction, or after a refusal for a while, with none above the lowest that it has
tried, so that what was behind a batch that was refused does not come first
(``VerificationStateEntry``).
"""

import struct
from collections.abc import Container, Iterator
from operator import itemgetter
from typing import Final, NamedTuple

from broker.ids import ProducerId
from broker.protocol.errors import ErrorCode, KafkaError
from broker.records.batch import BatchHeader

BATCHES_RETAINED: Final = 5
_SEQUENCE_MASK: Final = 2**31 - 1  # 2^31 - 1 is followed by 0
TRIED_MAX: Final = 100
"""So many producers that tried are remembered; beyond that the oldest are not."""
_ABANDONED: Final = -1
_NO_SEQUENCE: Final = -1
_ANY_SEQUENCE: Final = -2
_NOWHERE: Final = 1 << 63  # above every offset

_COUNT: Final = struct.Struct(">BI")
_UNTRIED: Final = (-1, -1)

_STATE: Final = struct.Struct(">qhiqB")
_BATCH: Final = struct.Struct(">iiqq")
_FORMAT: Final = 1
_FORGETFUL: Final = 2
"""As 1, of a log that has forgotten producers. A program that does not know would take
one of which it sees a marker first for a new one, and refuse what it goes on with."""


class Duplicate(NamedTuple):
    """A batch that was admitted before: where, and with which greatest timestamp.

    It may be answered once the partition is durable beyond ``last_offset``.
    """

    base_offset: int
    last_offset: int
    timestamp: int


class ActiveProducer(NamedTuple):
    """What is known of a producer: its last sequence, of what is durable (-1: none),
    and when it was heard last."""

    producer_id: ProducerId
    epoch: int
    last_sequence: int
    last_ms: int


Retained = tuple[int, int, int, int]
"""First sequence, last sequence, base offset (-1: abandoned), greatest timestamp."""


class ProducerState:
    """One producer of one partition."""

    __slots__ = ("batches", "epoch", "last_ms", "last_sequence")

    def __init__(self, epoch: int, last_sequence: int, last_ms: int) -> None:
        self.epoch = epoch
        self.last_sequence = last_sequence
        self.last_ms = last_ms
        self.batches: list[Retained] = []

    def duplicate(self, first: int, last: int) -> Duplicate | None:
        """The retained batch with exactly these sequences."""
        for batch in self.batches:
            if batch[0] == first and batch[1] == last and batch[2] != _ABANDONED:
                end = batch[2] + ((last - first) & _SEQUENCE_MASK)
                return Duplicate(batch[2], end, batch[3])
        return None

    def abandon(self, base_offset: int) -> bool:
        """Take a batch back; the sequence goes back as far as nothing follows."""
        batches = self.batches
        for at, batch in enumerate(batches):
            if batch[2] == base_offset:
                batches[at] = (batch[0], batch[1], _ABANDONED, batch[3])
                break
        else:
            return False
        if batches[-1][2] == _ABANDONED:
            self.last_sequence, count = self.below(_NOWHERE)
            del batches[count:]
        return True

    def below(self, offset: int) -> tuple[int, int]:
        """The last sequence, and how many batches are retained, without the newest
        ones that are abandoned or stand at ``offset`` or above."""
        batches, count = self.batches, len(self.batches)
        while count and not _ABANDONED < batches[count - 1][2] < offset:
            count -= 1
        if count == len(batches):
            return self.last_sequence, count
        return batches[count][0] - 1, count


class Producers:
    """The idempotent producers of one partition, by producer id."""

    __slots__ = ("_packed", "_states", "_tried", "has_forgotten")

    def __init__(self, *, has_forgotten: bool = False) -> None:
        self.has_forgotten = has_forgotten
        """Whether some that are not known may have written, at this start or before."""
        self._states: dict[ProducerId, ProducerState] = {}
        self._tried: dict[ProducerId, tuple[int, int]] = {}
        """Of some that are not known, and tried to begin a transaction here: epoch and
        lowest sequence. As long as this process lives."""
        self._packed: bytes | None = None
        """The last snapshot, while it holds: nothing was in flight, nothing changed."""

    def __len__(self) -> int:
        return len(self._states)

    def __contains__(self, producer_id: ProducerId) -> bool:
        return producer_id in self._states

    def check(
        self, header: BatchHeader, *, starts_at_zero: bool = False
    ) -> Duplicate | None:
        """Whether this batch may come next; changes nothing.

        Raises KafkaError: INVALID_PRODUCER_EPOCH if a newer epoch has written here,
        OUT_OF_ORDER_SEQUENCE_NUMBER if the batch neither continues the sequence nor
        is one of the last five, or if a new epoch does not start at 0, nor, with
        ``starts_at_zero``, a new producer; see also ``note_attempt``.
        """
        state = self._states.get(header.producer_id)
        if state is None:
            if starts_at_zero and header.base_sequence != 0:
                raise _out_of_order(header, -1)
            epoch, lowest = self._tried.get(header.producer_id, _UNTRIED)
            if epoch == header.producer_epoch and header.base_sequence > lowest:
                raise _out_of_order(header, lowest - 1)
            return None
        epoch, first = header.producer_epoch, header.base_sequence
        if epoch == state.epoch:
            if first == (state.last_sequence + 1) & _SEQUENCE_MASK:
                return None
            duplicate = state.duplicate(first, header.last_sequence)
            if duplicate is None and state.last_sequence != _ANY_SEQUENCE:
                raise _out_of_order(header, state.last_sequence)
            return duplicate
        if epoch < state.epoch:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"Epoch of producer {header.producer_id} is {epoch}, which is smaller "
                f"than the last seen epoch {state.epoch}",
            )
        if first != 0 and state.last_sequence != _ANY_SEQUENCE:
            raise _out_of_order(header, -1)
        return None

    def had(self, header: BatchHeader) -> bool:
        """Whether one of the last five batches in this epoch has its first sequence."""
        state, first = self._states.get(header.producer_id), header.base_sequence
        if state is None or state.epoch != header.producer_epoch:
            return False
        return any(
            (first - batch[0]) & _SEQUENCE_MASK
            <= (batch[1] - batch[0]) & _SEQUENCE_MASK
            for batch in state.batches
            if batch[2] != _ABANDONED
        )

    def record(self, header: BatchHeader, base_offset: int, now_ms: int) -> None:
        """Take down a batch that ``check`` let pass, and where it was placed."""
        self._packed = None
        first, last = header.base_sequence, header.last_sequence
        state = self._states.get(header.producer_id)
        if state is None:
            state = ProducerState(header.producer_epoch, last, now_ms)
            self._states[header.producer_id] = state
            self._tried.pop(header.producer_id, None)
        else:
            if state.epoch != header.producer_epoch:
                state.epoch = header.producer_epoch
                state.batches.clear()
            state.last_sequence = last
            state.last_ms = now_ms
        batches = state.batches
        if len(batches) == BATCHES_RETAINED:
            del batches[0]
        batches.append((first, last, base_offset, header.max_timestamp))

    def note_attempt(self, header: BatchHeader) -> None:
        """A batch of a transaction is about to come, or one is refused before it does:
        if its producer is not known, the first that is taken begins no higher."""
        producer_id, epoch = header.producer_id, header.producer_epoch
        if producer_id in self._states:
            return
        tried = self._tried.get(producer_id, _UNTRIED)
        if epoch == tried[0] and header.base_sequence >= tried[1]:
            return
        if tried is _UNTRIED and len(self._tried) == TRIED_MAX:
            del self._tried[next(iter(self._tried))]
        self._tried[producer_id] = epoch, header.base_sequence

    def check_marker(self, producer_id: ProducerId, epoch: int, *, bumps: bool) -> None:
        """Whether a marker of this epoch may come; ``bumps``: one that must carry a
        higher epoch than the transaction's records (KIP-890).

        Raises KafkaError INVALID_PRODUCER_EPOCH.
        """
        state = self._states.get(producer_id)
        if state is not None and epoch < state.epoch + bumps:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"the marker's epoch of producer {producer_id} is {epoch}, the last "
                f"seen epoch {state.epoch}",
            )

    def mark(
        self,
        producer_id: ProducerId,
        epoch: int,
        now_ms: int,
    ) -> None:
        """Take down a marker that is durable: its epoch is the producer's, and of a
        new one the sequence begins anew, as in Kafka that of one that is not known.
        Where the log may have forgotten its records it may go on with any, as before.
        """
        self._packed = None
        state = self._states.get(producer_id)
        if state is None:
            last = _ANY_SEQUENCE if self.has_forgotten else _NO_SEQUENCE
            self._states[producer_id] = ProducerState(epoch, last, now_ms)
            self._tried.pop(producer_id, None)
        elif epoch > state.epoch:
            self._states[producer_id] = ProducerState(epoch, _NO_SEQUENCE, now_ms)
        else:
            state.last_ms = now_ms

    def replay(
        self, header: BatchHeader, now_ms: int, *, may_be_followed: bool = False
    ) -> None:
        """Take down a batch read back from the log, unless it is known.
        ``may_be_followed``: of those behind it the log may have forgotten some; its
        producer may go on with any sequence, unless one is read back that may not."""
        state = self._states.get(header.producer_id)
        newest = max((b[2] for b in state.batches), default=-1) if state else -1
        if header.base_offset > newest:
            self.record(header, header.base_offset, now_ms)
            if may_be_followed:
                self._states[header.producer_id].last_sequence = _ANY_SEQUENCE

    def abandon(self, base_offset: int, producer_id: ProducerId | None = None) -> None:
        """The batch admitted at ``base_offset`` was refused: forget it.

        Without the producer's id all of them are asked.
        """
        self._packed = None
        if producer_id is None:
            any(state.abandon(base_offset) for state in self._states.values())
        elif (state := self._states.get(producer_id)) is not None:
            state.abandon(base_offset)

    def forget(self, producer_id: ProducerId) -> None:
        """Know nothing of this producer any more."""
        self._packed = None
        self._states.pop(producer_id, None)

    def expire(self, now_ms: int, ttl_ms: int, kept: Container[ProducerId] = ()) -> int:
        """Forget who has been silent for ``ttl_ms`` or longer, but for those that are
        ``kept``. Returns how many.

        Silence is measured by the broker's clock, not by the records' timestamps:
        a producer of old records is not forgotten between two batches.
        """
        silent = [
            producer_id
            for producer_id, state in self._states.items()
            if now_ms - state.last_ms >= ttl_ms and producer_id not in kept
        ]
        if silent:
            self._packed = None
        for producer_id in silent:
            del self._states[producer_id]
        return len(silent)

    def active(self, durable: int) -> Iterator[ActiveProducer]:
        """Those who are known; some may come and go while they are looked at."""
        for producer_id in tuple(self._states):
            state = self._states.get(producer_id)
            if state is not None:
                last, _ = state.below(durable)
                last = max(last, _NO_SEQUENCE)
                yield ActiveProducer(producer_id, state.epoch, last, state.last_ms)

    def epoch(self, producer_id: ProducerId) -> int | None:
        """The epoch in which a producer wrote last; None: it is not known."""
        state = self._states.get(producer_id)
        return None if state is None else state.epoch

    def newest(self, producer_id: ProducerId) -> tuple[int, int]:
        """Epoch and base offset of a producer's last batch; -1 for what is not
        known."""
        state = self._states.get(producer_id)
        if state is None:
            return -1, -1
        return state.epoch, max((batch[2] for batch in state.batches), default=-1)

    def newest_end(self, producer_id: ProducerId) -> tuple[int, int] | None:
        """Epoch of a producer's last batch and the offset behind it; None: it is not
        known."""
        state = self._states.get(producer_id)
        if state is None or not state.batches:
            return None
        first, last, base, _ = max(state.batches, key=itemgetter(2))
        return state.epoch, base + ((last - first) & _SEQUENCE_MASK) + 1

    def unconfirmed(self, durable: int) -> list[int]:
        """Base offsets, at or above ``durable``, of batches that are retained: what an
        older version kept of batches in flight."""
        return [
            batch[2]
            for state in self._states.values()
            for batch in state.batches
            if batch[2] >= durable
        ]

    def snapshot(self, durable: int = _NOWHERE) -> bytes:
        """All of it, or what is below ``durable``, as bytes for a checkpoint.

        A batch in flight is left out: it may still be refused, and its offset be given
        to another. If it becomes durable, ``replay`` takes it up. As long as nothing
        changes the answer is the same bytes, and costs nothing.
        """
        if self._packed is not None:
            return self._packed
        in_flight = False
        version = _FORGETFUL if self.has_forgotten else _FORMAT
        parts = [_COUNT.pack(version, len(self._states))]
        for producer_id, state in self._states.items():
            last_sequence, count = state.below(durable)
            in_flight = in_flight or count < len(state.batches)
            parts.append(
                _STATE.pack(
                    producer_id, state.epoch, last_sequence, state.last_ms, count
                )
            )
            parts.extend(_BATCH.pack(*batch) for batch in state.batches[:count])
        packed = b"".join(parts)
        self._packed = None if in_flight else packed
        return packed

    @property
    def stale(self) -> int:
        """How many producers the next snapshot must look at: all, or none."""
        return 0 if self._packed is not None else len(self._states)

    @classmethod
    def restore(cls, payload: bytes) -> "Producers":
        """What ``snapshot`` gave. Raises ValueError if it is something else."""
        producers = cls()
        try:
            version, count = _COUNT.unpack_from(payload)
            if version not in (_FORMAT, _FORGETFUL):
                raise ValueError(f"producer snapshot of format {version}")
            producers.has_forgotten = version == _FORGETFUL
            position = _COUNT.size
            for _ in range(count):
                position = producers._restore_one(payload, position)
        except struct.error as error:
            raise ValueError("the producer snapshot is cut off") from error
        if position != len(payload):
            raise ValueError("the producer snapshot goes on after its end")
        return producers

    def _restore_one(self, payload: bytes, position: int) -> int:
        producer_id, epoch, last_sequence, last_ms, held = _STATE.unpack_from(
            payload, position
        )
        position += _STATE.size
        state = ProducerState(epoch, last_sequence, last_ms)
        for _ in range(held):
            state.batches.append(_BATCH.unpack_from(payload, position))
            position += _BATCH.size
        self._states[producer_id] = state
        return position


def _out_of_order(header: BatchHeader, last_sequence: int) -> KafkaError:
    return KafkaError(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        f"Out of order sequence number for producer {header.producer_id}: "
        f"{header.base_sequence} (incoming seq. number), "
        f"{last_sequence} (current end sequence number)",
    )
