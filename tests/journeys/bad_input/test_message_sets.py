"""Message sets of clients before 0.11 that are damaged, lie, nest or bomb."""

import struct
import zlib

import cramjam
import lz4.frame
import pytest

from broker.protocol.errors import ErrorCode
from broker.records.compression import compress
from broker.records.limits import WRAPPERS_MAX
from tests.support.message_sets import consumed, message
from tests.support.peer import Peer, batch_of, produce_request
from tests.support.process import BrokerPart
from tests.support.wire import frame_of

UNKNOWN = ErrorCode.UNKNOWN_SERVER_ERROR
"""Instead of codes that are newer than these clients."""
DAMAGED = ErrorCode.CORRUPT_MESSAGE
GZIP, SNAPPY, LZ4 = 1, 2, 3


def wrapped(inner: bytes, codec: int = GZIP, magic: int = 0) -> bytes:
    return message(compress(codec, inner), magic, codec)


def nested(depth: int) -> bytes:
    inner = message(b"deep")
    for _ in range(depth):
        inner = wrapped(inner)
    return inner


def sized(size: int) -> bytes:
    """A message that says so of its size."""
    return struct.pack(">qi", 0, size) + message(b"x")[12:]


def with_key_of(length: int) -> bytes:
    """A sound checksum over a key's length that is a lie."""
    body = struct.pack(">bbi", 0, 0, length) + struct.pack(">i", -1)
    return struct.pack(">qiI", 0, len(body) + 4, zlib.crc32(body)) + body


def zeros(mebibytes: int) -> bytes:
    return bytes(mebibytes << 20)


SETS = {
    "null": (lambda: None, UNKNOWN),
    "empty": (lambda: b"", UNKNOWN),
    "a few bytes": (lambda: b"\0" * 20, DAMAGED),
    "cut off": (lambda: message(b"x" * 50)[:-1], DAMAGED),
    "a second one that is cut off": (lambda: message(b"x") * 2 + b"\0" * 9, DAMAGED),
    "a size of zero": (lambda: sized(0), DAMAGED),
    "a negative size": (lambda: sized(-1), DAMAGED),
    "a huge size": (lambda: sized(2**31 - 1), DAMAGED),
    "a key longer than all": (lambda: with_key_of(2**31 - 1), UNKNOWN),
    "a key of a negative length": (lambda: with_key_of(-2), UNKNOWN),
    "corrupt": (lambda: message(b"x")[:-1] + b"y", DAMAGED),
    "corrupt inside": (lambda: wrapped(message(b"x")[:-1] + b"y"), DAMAGED),
    "a batch behind a message": (lambda: message(b"x") + batch_of(b"y"), UNKNOWN),
    "a batch inside": (lambda: wrapped(bytes(batch_of(b"y"))), UNKNOWN),
    "magic 1 inside magic 0": (lambda: wrapped(message(b"x", 1)), UNKNOWN),
    "nested": (lambda: nested(2), UNKNOWN),
    "nested a thousand times": (lambda: nested(1000), UNKNOWN),
    "thousands side by side": (lambda: nested(1) * (WRAPPERS_MAX + 1), UNKNOWN),
    "zstd": (lambda: message(b"x", 0, 4), UNKNOWN),
    "an unknown codec": (lambda: message(b"x", 0, 7), UNKNOWN),
    "gzip that is none": (lambda: message(b"no gzip", 0, GZIP), DAMAGED),
    "snappy that is none": (lambda: message(b"\x05\xff\xff", 0, SNAPPY), DAMAGED),
    "lz4 that is none": (lambda: message(b"no lz4 at all", 0, LZ4), DAMAGED),
    "nothing inside": (lambda: wrapped(b""), UNKNOWN),
    "a time before all tables": (
        lambda: message(b"x", 1, 0, -(2**63)),
        ErrorCode.INVALID_TIMESTAMP,
    ),
    "the broker's own time": (
        lambda: message(b"x", 1, 8),
        ErrorCode.INVALID_TIMESTAMP,
    ),
    "a bomb in gzip": (lambda: wrapped(message(zeros(70))), UNKNOWN),
    "a bomb in snappy": (
        lambda: message(bytes(cramjam.snappy.compress_raw(zeros(70))), 0, SNAPPY),
        UNKNOWN,
    ),
    "snappy that declares 4 GiB": (
        lambda: message(b"\xff\xff\xff\xff\x0f" + bytes(100), 0, SNAPPY),
        UNKNOWN,
    ),
    "a bomb in lz4": (
        lambda: message(lz4.frame.compress(zeros(70), block_size=7), 1, LZ4),
        UNKNOWN,
    ),
    "bombs that are none each": (lambda: wrapped(message(zeros(30))) * 9, UNKNOWN),
}


@pytest.mark.parametrize("name", SETS)
def test_a_bad_set_is_refused_and_the_good_ones_stand(
    broker: BrokerPart, peer: Peer, topic: str, name: str
) -> None:
    make, code = SETS[name]
    made = make()
    for version in (0, 1, 2):
        answer = peer.produce(topic, made, version)
        assert (answer.error_code, answer.base_offset) == (code, -1), version
    with Peer(broker.bootstrap) as other:
        other.send(frame_of(produce_request(topic, made, acks=0), 1))
        assert other.is_closed()
    assert peer.produce(topic, message(b"after"), 0).error_code == 0
    assert peer.values(topic) == [b"before", b"after"]
    for version in range(4):
        found = consumed(bytes(peer.fetch(topic, 0, version).records or b""))
        assert [one.value for one in found] == [b"before", b"after"]


def test_offsets_that_a_producer_made_up_mean_nothing(peer: Peer, topic: str) -> None:
    huge = struct.pack(">q", 2**63 - 1) + message(b"a", 1)[8:]
    below = struct.pack(">q", -(2**63)) + message(b"b", 1)[8:]
    for made in (huge + below, wrapped(huge + below, LZ4, 1)):
        for version in (0, 1, 2):
            assert peer.produce(topic, made, version).error_code == 0
    assert peer.values(topic) == [b"before"] + [b"a", b"b"] * 6
    found = consumed(bytes(peer.fetch(topic, 0, 2).records or b""))
    assert [one.offset for one in found] == list(range(13))
