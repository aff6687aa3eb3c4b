"""What a connection received stays as it came until the log has it on disk.

A batch waits for the writer as a view of the memory that it was received into. However
its connection ends meanwhile, the next connection must not receive over it. Told with
real connections, handlers and write-ahead log, on a disk that is held up by hand.
"""

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.protocol.api_keys import ApiKey
from broker.protocol.messages.heartbeat import HeartbeatRequest
from broker.runtime.services import Broker
from broker.storage.files import Buffer, PosixFiles
from tests.support.rig import batch_of, create, fetch_one, produce_request, rig
from tests.support.serving import Serving, on_loop, serving, until
from tests.support.wire import Wire, frame_of

VERSION = 9
VALUE_BYTES = 300


class HeldFiles(PosixFiles):
    """Writes wait while ``free`` is not set."""

    def __init__(self) -> None:
        self.free = threading.Event()
        self.free.set()

    def pwritev(self, file: int, parts: Sequence[Buffer], position: int) -> None:
        self.free.wait()
        super().pwritev(file, parts, position)


@serves(ApiKey.HEARTBEAT, versions=(0, 4))
def heartbeat(_: HeartbeatRequest, __: Context) -> Any:
    raise ZeroDivisionError


def produced(topic: str, value: bytes, acks: int = -1, partition: int = 0) -> bytes:
    batch = bytes(batch_of(value * VALUE_BYTES))
    return frame_of(produce_request(topic, (partition, batch), acks=acks), VERSION)


def two_topics(topic: str, other: str, value: bytes) -> bytes:
    """A produce with acks=0 of a batch to each of two topics."""
    request = produce_request(topic, (0, bytes(batch_of(value * VALUE_BYTES))), acks=0)
    request.topic_data += produce_request(other, (0, bytes(batch_of(b"x")))).topic_data
    return frame_of(request, VERSION)


BAD_ENDS = {
    "rubbish": produced("a", b"A") + b"\xff\xff\xff\xff rubbish",
    "a handler's fault": produced("a", b"A") + frame_of(HeartbeatRequest("g"), 0),
    "no acks, one topic unknown": two_topics("a", "unknown", b"A"),
    "no acks, then an unknown topic": (
        produced("a", b"A", acks=0) + produced("unknown", b"A", acks=0)
    ),
    "a produce that cannot be read": (
        produced("a", b"A") + bytes.fromhex("0000000a 0000 0009 00000001 7fff")
    ),
}


@pytest.mark.parametrize("bad_end", BAD_ENDS)
def test_a_batch_is_not_received_over(tmp_path: Path, bad_end: str) -> None:
    async def story() -> None:
        files = HeldFiles()
        async with rig(tmp_path, files=files) as broker:
            for topic in ("plug", "a", "b"):
                await create(broker, topic)
            async with serving([heartbeat], broker=broker) as server:
                try:
                    await overwrite(server, broker, files, BAD_ENDS[bad_end])
                finally:
                    files.free.set()
                await until(lambda: ends(broker) == [1, 1, 1])
            for topic, value in (("a", b"A"), ("b", b"B")):
                data = await fetch_one(broker, topic, 0)
                batch = b"".join(map(bytes, data.records))  # type: ignore[arg-type]
                assert value * VALUE_BYTES in batch

    on_loop(story)


async def overwrite(
    server: Serving, broker: Broker, files: HeldFiles, bad: bytes
) -> None:
    """Hold the writer up, end a connection badly, receive on others; let it go on."""
    plug, last = await Wire.open(server.address), await Wire.open(server.address)
    files.free.clear()
    plug.send(produced("plug", b"P"))
    await until(lambda: next_offset(broker, "plug") == 1)
    ending = await Wire.open(server.address)
    ending.send(bad)
    await until(lambda: next_offset(broker, "a") == 1)
    await asyncio.sleep(0.02)  # it came in one read: whatever closes it has run
    last.send(produced("b", b"B"))
    await until(lambda: next_offset(broker, "b") == 1)
    ending.close()


def next_offset(broker: Broker, topic: str) -> int:
    return broker.partitions.named(topic, 0).log.offsets.next


def ends(broker: Broker) -> list[int]:
    topics = ("plug", "a", "b")
    return [broker.partitions.named(topic, 0).high_watermark for topic in topics]
