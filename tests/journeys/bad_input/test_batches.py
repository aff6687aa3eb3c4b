"""Batches that are damaged, lie, are too large, or decompress to gigabytes."""

import struct
import threading
import time
import zlib

import cramjam
import lz4.frame
import psutil
import pytest
import zstandard

from broker.protocol.errors import ErrorCode
from broker.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from broker.records.limits import UNCOMPRESSED_BYTES_MAX
from tests.support.batches import Record, make_batch, nullable, patch, varint, wrap
from tests.support.peer import Peer, Witness, batch_of, produce_request
from tests.support.process import BrokerPart
from tests.support.turns import slowness
from tests.support.wire import frame_of


def sealed(batch: bytearray, position: int, form: str, *values: int) -> bytearray:
    return patch(batch, form, position, *values)


def corrupt() -> bytearray:
    batch = batch_of(b"x" * 100)
    batch[-5] ^= 1
    return batch


def old_message(magic: int) -> bytes:
    """One message of the days before batches (KIP-32)."""
    tail = bytes([magic, 0]) + (struct.pack(">q", 0) if magic else b"")
    tail += struct.pack(">i", -1) + struct.pack(">i", 1) + b"x"
    message = struct.pack(">I", zlib.crc32(tail)) + tail
    return struct.pack(">qi", 0, len(message)) + message


def one_record(body: bytes) -> bytearray:
    """A batch of one record with this body, whatever it is; stamped now."""
    now_ms = int(time.time() * 1000)
    record = varint(len(body)) + body
    return wrap(record, 1, base_timestamp=now_ms, max_timestamp=now_ms)


def stamped(timestamp: int) -> bytearray:
    return make_batch([Record(value=b"x", timestamp=timestamp)])


def with_header(key: bytes | None) -> bytearray:
    return one_record(
        b"\0\0\0" + nullable(None) + nullable(b"x") + varint(1) + nullable(key) + b"\1"
    )


INT32_MAX = 2**31 - 1
BAD = ErrorCode.INVALID_RECORD
DAMAGED = ErrorCode.CORRUPT_MESSAGE
BATCHES = {
    "null": (lambda: None, BAD),
    "empty": (lambda: b"", BAD),
    "a few bytes": (lambda: b"\0" * 10, DAMAGED),
    "a header cut off": (lambda: batch_of(b"x")[:60], DAMAGED),
    "cut off in the records": (lambda: batch_of(b"x" * 100)[:-1], BAD),
    "bytes behind": (lambda: batch_of(b"x") + b"\0", BAD),
    "two batches": (lambda: batch_of(b"x") * 2, BAD),
    "a length of zero": (
        lambda: sealed(batch_of(b"x"), 8, ">i", 0),
        DAMAGED,
    ),
    "a negative length": (lambda: sealed(batch_of(b"x"), 8, ">i", -1), DAMAGED),
    "a huge length": (lambda: sealed(batch_of(b"x"), 8, ">i", INT32_MAX), BAD),
    "corrupt": (corrupt, DAMAGED),
    "magic 0": (lambda: old_message(0), BAD),
    "magic 1": (lambda: old_message(1), BAD),
    "magic 3": (lambda: sealed(batch_of(b"x"), 16, ">b", 3), BAD),
    "too few records": (lambda: sealed(batch_of(b"x", b"y"), 57, ">i", 1), BAD),
    "too many records": (lambda: sealed(batch_of(b"x"), 57, ">i", 2), BAD),
    "no records": (lambda: sealed(batch_of(b"x"), 57, ">i", 0), BAD),
    "fewer than no records": (lambda: sealed(batch_of(b"x"), 57, ">i", -1), BAD),
    "count and delta agree, records do not": (
        lambda: sealed(sealed(batch_of(b"x"), 57, ">i", 9), 23, ">i", 8),
        BAD,
    ),
    "records without end": (
        lambda: sealed(
            sealed(batch_of(b"x"), 57, ">i", INT32_MAX), 23, ">i", INT32_MAX - 1
        ),
        BAD,
    ),
    "a control batch": (lambda: batch_of(b"x", attributes=0x20), BAD),
    "in a transaction": (
        lambda: batch_of(b"x", attributes=0x10),
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
    "an unknown codec": (
        lambda: sealed(batch_of(b"x"), 21, ">h", 5),
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    ),
    "a producer without a sequence": (
        lambda: batch_of(b"x", producer=(5, 0, -1)),
        BAD,
    ),
    "above max.message.bytes": (
        lambda: batch_of(bytes(1_048_588)),
        ErrorCode.MESSAGE_TOO_LARGE,
    ),
    "the broker's own time": (
        lambda: batch_of(b"x", attributes=0x08),
        ErrorCode.INVALID_TIMESTAMP,
    ),
    "two hours ahead": (
        lambda: stamped(int(time.time() * 1000) + 7_200_000),
        ErrorCode.INVALID_TIMESTAMP,
    ),
    "a time that no table holds": (
        lambda: stamped(2**63 - 1),
        ErrorCode.INVALID_TIMESTAMP,
    ),
    "a time before all tables": (
        lambda: stamped(-(2**63)),
        ErrorCode.INVALID_TIMESTAMP,
    ),
    "a header key that is no UTF-8": (lambda: with_header(b"\xff\xfe"), BAD),
    "a header key that is null": (lambda: with_header(None), BAD),
    "a key longer than its record": (
        lambda: one_record(b"\0\0\0" + varint(1000) + b"x"),
        BAD,
    ),
    "headers beyond the record": (
        lambda: one_record(b"\0\0\0\1\1" + varint(INT32_MAX)),
        BAD,
    ),
    "zstd that is none": (lambda: raw_codec(4, b"not zstd at all"), DAMAGED),
    "gzip that is none": (lambda: raw_codec(1, b"not gzip at all"), DAMAGED),
    "snappy that is none": (lambda: raw_codec(2, b"\x05\xff\xff"), DAMAGED),
    "lz4 that is none": (lambda: raw_codec(3, b"not lz4 at all"), DAMAGED),
}


def raw_codec(codec: int, compressed: bytes, count: int = 1) -> bytearray:
    """A batch around bytes that are said to be compressed."""
    batch = batch_of(b"x")[:61] + compressed
    batch = sealed(bytearray(batch), 8, ">i", len(batch) - 12)
    batch = sealed(batch, 57, ">i", count)
    batch = sealed(batch, 23, ">i", count - 1)
    return sealed(batch, 21, ">h", codec)


@pytest.mark.parametrize("name", BATCHES)
def test_a_bad_batch_is_refused_and_the_good_ones_stand(
    peer: Peer, topic: str, name: str
) -> None:
    make, code = BATCHES[name]
    for version in (7, 8, 9, 12) if "zstd" in name else (3, 7, 12):
        assert peer.produce(topic, make(), version).error_code == code, version
    assert peer.produce(topic, batch_of(b"after")).error_code == 0
    assert peer.values(topic) == [b"before", b"after"]


def test_a_bad_batch_does_not_touch_its_neighbours(peer: Peer) -> None:
    peer.create("neighbours", partitions=3)
    entries = [
        PartitionProduceData(0, batch_of(b"good")),
        PartitionProduceData(1, corrupt()),
        PartitionProduceData(2, with_header(b"\xff")),
        PartitionProduceData(3, batch_of(b"nowhere")),
        PartitionProduceData(0, batch_of(b"good too")),
    ]
    data = [TopicProduceData("neighbours", bytes(16), entries)]
    answer = peer.ask(ProduceRequest(None, -1, 30_000, data), 12)
    codes = [one.error_code for one in answer.responses[0].partition_responses]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes == [0, DAMAGED, BAD, unknown, 0]
    assert peer.values("neighbours") == [b"good", b"good too"]


def test_what_is_refused_with_acks_0_closes_the_connection(
    broker: BrokerPart, peer: Peer, topic: str
) -> None:
    for bad in (corrupt(), with_header(b"\xff"), None):
        with Peer(broker.bootstrap) as other:
            other.send(frame_of(produce_request(topic, bad, acks=0), 9))
            assert other.is_closed()
    assert peer.values(topic) == [b"before"]


def test_zstd_is_refused_where_the_client_cannot_know_it(
    peer: Peer, topic: str
) -> None:
    for version, code in ((3, 76), (6, 76), (7, 0)):
        batch = batch_of(b"x", codec=4)
        assert peer.produce(topic, batch, version).error_code == code


ZEROS = 300 << 20


def bomb(name: str) -> tuple[int, bytes]:
    """(codec, some hundred kilobytes that decompress to 300 MiB)."""
    zeros = bytes(ZEROS)
    if name == "gzip":
        return 1, zlib.compress(zeros, 9, 31)
    if name == "gzip in many members":
        return 1, zlib.compress(b"", 9, 31) * 45_000
    if name == "snappy declares 4 GiB":
        return 2, b"\xff\xff\xff\xff\x0f" + bytes(100)
    if name == "snappy in chunks":
        chunk = bytes(cramjam.snappy.compress_raw(bytes(10 << 20)))
        head = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
        return 2, head + (struct.pack(">i", len(chunk)) + chunk)
    if name == "lz4":
        return 3, lz4.frame.compress(bytes(200 << 20), block_size=7)
    if name == "zstd with its size":
        return 4, zstandard.compress(zeros)
    if name == "zstd without its size":
        return 4, zstandard.ZstdCompressor(write_content_size=False).compress(zeros)
    frames = zstandard.compress(bytes(1 << 20)) * 5000
    return 4, frames


BOMBS = [
    "gzip",
    "gzip in many members",
    "snappy declares 4 GiB",
    "snappy in chunks",
    "lz4",
    "zstd with its size",
    "zstd without its size",
    "zstd in many frames",
]


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_does_not_go_off(
    broker: BrokerPart, witness: Witness, peer: Peer, topic: str, name: str
) -> None:
    codec, compressed = bomb(name)
    batch = raw_codec(codec, compressed)
    assert broker.process is not None
    memory = psutil.Process(broker.process.pid)
    rss: list[int] = []
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.005):
            rss.append(memory.memory_info().rss)

    rss.append(before := memory.memory_info().rss)
    watcher = threading.Thread(target=watch)
    watcher.start()
    before_s = sum(memory.cpu_times()[:2])
    for _ in range(3):
        answer = peer.produce(topic, batch)
        assert answer.error_code in (BAD, DAMAGED, ErrorCode.MESSAGE_TOO_LARGE)
    used_s = sum(memory.cpu_times()[:2]) - before_s
    witness.goes_on()
    over.set()
    watcher.join()
    assert max(rss) - before < UNCOMPRESSED_BYTES_MAX * 3
    assert used_s < 6 * slowness()  # others wait for their turn on the disk meanwhile
    assert peer.values(topic) == [b"before"]
