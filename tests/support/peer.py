"""A raw socket that says whatever a test wants, and one who must not notice.

``Peer`` writes bytes and reads frames; it knows no manners. ``Witness`` is a client
that was there before and stays: it produces a record, reads all of its records back,
and holds that they are those it sent.
"""

import socket
import struct
import time
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from broker.protocol.codec import response_decoder
from broker.protocol.frames import decode_response_head
from broker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from broker.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionData,
)
from broker.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from broker.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from broker.records.batch import read_header
from tests.support.batches import Record, make_batch, read_batch
from tests.support.patience import IDLE_S
from tests.support.reached import hear
from tests.support.wire import frame_of

PATIENCE_S = IDLE_S


class Peer:
    """One connection."""

    def __init__(self, bootstrap: str, patience_s: float = PATIENCE_S) -> None:
        host, port = bootstrap.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=patience_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.socket.close()

    def send(self, *parts: bytes) -> None:
        """All of it, unless the other side has closed: then what went is enough."""
        with suppress(BrokenPipeError, ConnectionResetError):
            self.socket.sendall(b"".join(parts))

    def receive(self) -> memoryview:
        """The next frame, without its length; ConnectionError if there is none."""
        (length,) = struct.unpack(">i", self._exactly(4))
        return memoryview(self._exactly(length))

    def _exactly(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            part = self.socket.recv(count - len(data))
            if not part:
                raise ConnectionError(f"closed after {len(data)} of {count} bytes")
            data += part
        return bytes(data)

    def ask(self, request: Any, version: int) -> Any:
        """One request, its response; ConnectionError if it closes instead."""
        self.send(frame_of(request, version))
        return self.answer(int(request.API_KEY), version)

    def answer(self, key: int, version: int) -> Any:
        """The response to a request that was sent."""
        answer = self._decoded(key, version)
        hear(key, version)
        return answer

    def _decoded(self, key: int, version: int) -> Any:
        frame = self.receive()
        _, position = decode_response_head(frame, key, version)
        return response_decoder(key, version)(frame, position)

    def prepare(self, request: Any, version: int) -> Any:
        """As ``ask``, for what only prepares a script and is not what it asks."""
        self.send(frame_of(request, version))
        return self._decoded(int(request.API_KEY), version)

    def is_closed(self) -> bool:
        """Whether the other side closes, and says nothing more before it does."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def create(self, name: str, partitions: int = 1) -> bytes:
        """A new topic; its id."""
        asked = CreatableTopic(name, partitions, 1)
        answer = self.prepare(CreateTopicsRequest([asked]), 7).topics[0]
        assert answer.error_code == 0, answer.error_message
        topic_id: bytes = answer.topic_id
        return topic_id

    def produce(
        self, name: str, records: Any, version: int = 12, acks: int = -1
    ) -> PartitionProduceResponse:
        """One batch into partition 0; the partition's answer."""
        request = produce_request(name, records, acks)
        answer = self.prepare(request, version).responses[0].partition_responses[0]
        assert isinstance(answer, PartitionProduceResponse)
        return answer

    def fetch(self, name: str, offset: int, version: int = 12) -> PartitionData:
        """From partition 0; the partition's answer."""
        asked = FetchTopic(name, partitions=[FetchPartition(0, fetch_offset=offset)])
        asked.partitions[0].partition_max_bytes = 50 << 20
        answer = self.prepare(FetchRequest(max_bytes=50 << 20, topics=[asked]), version)
        data = answer.responses[0].partitions[0]
        assert isinstance(data, PartitionData)
        return data

    def values(self, name: str) -> list[bytes | None]:
        """The values of partition 0, all of them."""
        found: list[bytes | None] = []
        offset = 0
        while True:
            data = self.fetch(name, offset)
            assert data.error_code == 0
            records = memoryview(data.records or b"")  # type: ignore[arg-type]
            while records:
                header = read_header(records)
                batch = read_batch(records[: header.size])
                found += [one.value for one in batch]
                offset = header.last_offset + 1
                records = records[header.size :]
            if offset >= data.high_watermark:
                return found

    def end(self, name: str) -> int:
        """The end of partition 0."""
        asked = ListOffsetsTopic(name, [ListOffsetsPartition(0, timestamp=-1)])
        answer = self.prepare(ListOffsetsRequest(topics=[asked]), 5)
        offset: int = answer.topics[0].partitions[0].offset
        return offset


def produce_request(
    name: str, records: Any, acks: int = -1, topic_id: bytes = bytes(16)
) -> ProduceRequest:
    """One batch for partition 0."""
    data = TopicProduceData(name, topic_id, [PartitionProduceData(0, records)])
    return ProduceRequest(None, acks, 30_000, [data])


def batch_of(*values: bytes, **more: Any) -> bytearray:
    """A batch of records with these values, stamped now."""
    now_ms = int(time.time() * 1000)
    records = [Record(value=value, timestamp=now_ms) for value in values]
    return make_batch(records, **more)


class Witness:
    """A client beside whoever misbehaves, on a connection of its own."""

    TOPIC = "witness"

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.peer = Peer(bootstrap)
        self.peer.create(self.TOPIC)
        self.sent: list[bytes | None] = []

    def close(self) -> None:
        self.peer.socket.close()

    def goes_on(self, size: int = 1) -> None:
        """It produces, and reads all that it ever produced; nothing is amiss."""
        value = b"%d" % len(self.sent) + b"." * size
        assert self.peer.produce(self.TOPIC, batch_of(value)).error_code == 0
        self.sent.append(value)
        assert self.peer.values(self.TOPIC) == self.sent


def values_by_offset(
    bootstrap: str, topic: str, at: int, end: int
) -> dict[int, Any] | None:
    """Offset -> value of all in the batches that a consumer gets of partition 0 who
    begins at ``at`` and is to reach ``end``; None: he gets an error."""
    found: dict[int, Any] = {}
    with Peer(bootstrap) as peer:
        while at < end:
            data = peer.fetch(topic, at)
            if data.error_code:
                return None
            records = memoryview(data.records or b"")
            while records:
                header = read_header(records)
                batch = read_batch(records[: header.size])
                found |= {one.offset: one.value for one in batch}
                at = header.last_offset + 1
                records = records[header.size :]
    return found
