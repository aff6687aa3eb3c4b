"""Produce once more: a request that differs from one before in its batch alone.

The problem. A client that produces small batches says the same thing each time: its
name, the acks, the topic, the partition. Reading that into objects, looking up what it
names, and writing the same answer with another offset is most of what such a request
costs.

The idea. When a request for one partition was read the general way, what comes before
its batch is kept, with the partition that it led to and with the answer's bytes around
the three numbers that change. A later request that begins with the same bytes and ends
with its batch needs none of the rest. Whatever is not so, and any refusal, goes the
general way or is written by it.

The price. Two ways to one answer; a test sends the same requests both ways.
"""

from ctypes import addressof, c_char
from struct import Struct
from typing import Any, Final

from broker.apis._produce_refused import BATCHES_SINCE, refuse
from broker.dispatch.context import Context
from broker.dispatch.pending import PendingBytes
from broker.dispatch.registry import Answer
from broker.protocol.errors import KafkaError
from broker.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from broker.protocol.wire import uvarint
from broker.runtime.partitions.partition import Partition
from broker.runtime.partitions.partitions import Partitions

ID_BYTES: Final = 8
"""Key, version and correlation id, before what is compared."""

_FLEXIBLE_SINCE: Final = 9
_LOG_START_SINCE: Final = 5
_TAGS: Final = b"\0\0\0"  # of partition, topic and request: none
_ACKED: Final = (-1, 1)
_BY_ID_SINCE: Final = 13
_MARK: Final = (0x7A11_0000_7A11_0000, 0x7A11_0000_7A11_0001, 0x7A11_0000_7A11_0002)
_INT64S: Final = Struct(">3q")
_INT32: Final = Struct(">i")


class Repeat:
    """Answers requests that begin as one did before, up to the length of its batch."""

    __slots__ = (
        "_answer", "_clock", "_counters", "_form", "_head", "_length_at", "_partition",
        "_size", "_tail", "_timeout_ms", "_version", "prefix",
    )  # fmt: skip

    def __init__(
        self,
        prefix: bytes,
        partition: Partition,
        answer: TopicProduceResponse,
        whole: Answer,
        context: Context,
        timeout_ms: int,
    ) -> None:
        self._timeout_ms = timeout_ms
        self._length_at = ID_BYTES + len(prefix)
        self.prefix = prefix
        """What is the same: from the correlation id's end to the batch's length."""
        self._version = context.version
        self._clock = context.broker.clock
        self._counters = context.broker.counters
        self._partition = partition
        self._answer = answer
        numbers = 3 if context.version >= _LOG_START_SINCE else 2
        self._head, self._tail = _envelope(answer, whole, numbers)
        form = f">ii{len(self._head)}s{numbers}q{len(self._tail)}s"
        self._form = Struct(form)
        self._size = self._form.size - 4

    def start(self, frame: memoryview, correlation_id: int) -> "Repeated | None":
        """Append the batch; None: nothing was done, read the request."""
        records = self._records(frame)
        if records is None or self._partition.deleted:
            return None
        target = self._partition.target
        if target is not None and target.differs_from(records):
            return None  # it is compressed anew, which takes a thread
        repeated = Repeated(self, correlation_id)
        self._partition.append(
            records,
            self._version,
            self._clock.now_ms(),
            repeated.reply,
            self._timeout_ms,
        )
        return repeated

    def _records(self, frame: memoryview) -> memoryview | None:
        """The batch, if the frame ends with it as it should."""
        at = self._length_at
        end = len(frame)
        if self._version < _FLEXIBLE_SINCE:
            if end - at <= 4 or _INT32.unpack_from(frame, at)[0] != end - at - 4:
                return None
            return frame[at + 4 :]
        end -= len(_TAGS)
        for size in (1, 2, 3, 4):
            length = end - at - size
            if length > 0 and frame[at : at + size] == uvarint(length + 1):
                return frame[at + size : end] if bytes(frame[end:]) == _TAGS else None
        return None

    def encode(self, correlation_id: int, base_offset: int, stamp_ms: int) -> bytes:
        """The whole answer to a batch that is durable."""
        if self._version >= _LOG_START_SINCE:
            return self._form.pack(
                self._size, correlation_id, self._head, base_offset, stamp_ms,
                self._partition.log.offsets.start, self._tail,
            )  # fmt: skip
        return self._form.pack(
            self._size, correlation_id, self._head, base_offset, stamp_ms, self._tail
        )

    def refusal(self, error: KafkaError) -> ProduceResponse:
        """The answer to a batch that was refused, as the general way gives it."""
        self._counters.produce_errors += 1
        one = PartitionProduceResponse(self._answer.partition_responses[0].index)
        refuse(one, error, self._version, self._partition.log.offsets.start)
        topic = TopicProduceResponse(self._answer.name, self._answer.topic_id, [one])
        return ProduceResponse([topic])


class Repeated(PendingBytes):
    """The answer to come: bytes, or a response that says what is wrong."""

    __slots__ = ("_correlation_id", "_repeat")

    def __init__(self, repeat: Repeat, correlation_id: int) -> None:
        super().__init__()
        self._repeat = repeat
        self._correlation_id = correlation_id

    def reply(self, base_offset: int, stamp_ms: int, error: KafkaError | None) -> None:
        """What became of the batch."""
        if error is None:
            self.set_answer(
                self._repeat.encode(self._correlation_id, base_offset, stamp_ms)
            )
        else:
            self.set_result(self._repeat.refusal(error))


def repeat(
    frame: memoryview, request: ProduceRequest, context: Context, whole: Answer
) -> Repeat | None:
    """What is to be kept of a request that was read; None if it is not so simple.

    ``whole`` makes a whole answer, its length in front, of a response.
    """
    if context.version < BATCHES_SINCE:
        return None
    if request.acks not in _ACKED or request.transactional_id is not None:
        return None
    if len(request.topic_data) != 1 or len(request.topic_data[0].partition_data) != 1:
        return None
    (data,) = request.topic_data
    (one,) = data.partition_data
    prefix = _before(frame, one.records, context.version)
    if prefix is None:
        return None
    try:
        partition = partition_of(
            data, one.index, context.version, context.broker.partitions
        )
    except KafkaError:
        return None
    answer = TopicProduceResponse(
        data.name, data.topic_id, [PartitionProduceResponse(one.index)]
    )
    timeout_ms = request.timeout_ms
    return Repeat(prefix, partition, answer, whole, context, timeout_ms)


def partition_of(
    data: TopicProduceData, index: int, version: int, partitions: Partitions
) -> Partition:
    """The partition that is meant, by the topic's name or, since version 13, its id.

    Raises UNKNOWN_TOPIC_OR_PARTITION or UNKNOWN_TOPIC_ID.
    """
    if version >= _BY_ID_SINCE:
        return partitions.identified(data.topic_id, index)
    return partitions.named(data.name, index)


def _before(frame: memoryview, records: Any, version: int) -> bytes | None:
    """What comes before the batch's length, if nothing but tags comes after it."""
    if not records:
        return None
    flexible = version >= _FLEXIBLE_SINCE
    size = len(uvarint(len(records) + 1)) if flexible else _INT32.size
    after = len(_TAGS) if flexible else 0
    # Where it lies says it at once; comparing bytes would take milliseconds.
    at = _address(records) - _address(frame)
    if at + len(records) + after != len(frame):
        return None
    return bytes(frame[ID_BYTES : at - size])


def _address(view: memoryview) -> int:
    return addressof(c_char.from_buffer(view))


def _envelope(
    answer: TopicProduceResponse, whole: Answer, numbers: int
) -> tuple[bytes, bytes]:
    """The bytes of an answer behind its id, before and after its numbers."""
    (one,) = answer.partition_responses
    marked = PartitionProduceResponse(one.index, 0, *_MARK)
    response = ProduceResponse(
        [TopicProduceResponse(answer.name, answer.topic_id, [marked])]
    )
    parts, _ = whole(0, response)
    data = b"".join(parts)
    mark = _INT64S.pack(*_MARK)[: 8 * numbers]
    at = data.index(mark)
    return data[ID_BYTES:at], data[at + len(mark) :]
