"""Message sets as clients of Kafka 0.8 to 0.10 send them, and where a set ends."""

import struct
import zlib
from collections.abc import Iterable

from broker.records import compression
from broker.records.lz4_frames import compress_blocks, with_checksum

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3}
TIMESTAMP_MS = 1_450_000_000_000
HEAD_BYTES = 12
"""Offset and size, before each message."""


def message(value: bytes, magic: int, offset: int, codec: int = 0) -> bytes:
    """One message without a key."""
    tail = struct.pack(">bb", magic, codec)
    tail += struct.pack(">q", TIMESTAMP_MS) if magic else b""
    tail += struct.pack(">ii", -1, len(value)) + value
    return struct.pack(">qiI", offset, len(tail) + 4, zlib.crc32(tail)) + tail


def message_set(values: Iterable[bytes], magic: int, codec: str) -> tuple[bytes, int]:
    """The set, in one compressed message if it is; and the bytes of the bare one."""
    made = [message(value, magic, number) for number, value in enumerate(values)]
    bare, number = b"".join(made), CODECS[codec]
    if not number:
        return bare, len(bare)
    wrapped = message(_compress(bare, number, magic), magic, len(made) - 1, number)
    return wrapped, len(bare)


def _compress(bare: bytes, codec: int, magic: int) -> bytes:
    if codec != CODECS["lz4"]:
        return compression.compress(codec, bare)
    frame = compress_blocks(bare)
    return frame if magic else bytes(with_checksum(frame, of_magic_0=True))


def next_offset(messages: bytes, offset: int) -> int:
    """The offset after the last whole message; ``offset`` if there is none."""
    at = 0
    while at + HEAD_BYTES <= len(messages):
        found, size = struct.unpack_from(">qi", messages, at)
        at += HEAD_BYTES + size
        if at <= len(messages):
            offset = found + 1
    return offset
