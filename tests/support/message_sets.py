"""Message sets of magic 0 and 1: written naively, and by kafka-python's own codec."""

import struct
import zlib
from collections.abc import Sequence

from kafka.record.legacy_records import LegacyRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords

from tests.support.batches import Record


def message(value: bytes, magic: int = 0, attributes: int = 0, stamp: int = 0) -> bytes:
    """One message without a key, with a right checksum."""
    body = struct.pack(">bb", magic, attributes)
    body += struct.pack(">q", stamp) if magic else b""
    body += struct.pack(">ii", -1, len(value)) + value
    return struct.pack(">qiI", 0, len(body) + 4, zlib.crc32(body)) + body


def produced(records: Sequence[Record], magic: int, codec: int) -> bytearray:
    """What a producer of that age sends."""
    builder = LegacyRecordBatchBuilder(magic, codec, 1 << 30)
    for offset, one in enumerate(records):
        builder.append(offset, one.timestamp, one.key, one.value)
    return builder.build()


def consumed(message_set: bytes | memoryview) -> list[Record]:
    """What a consumer of that age reads, each checksum compared."""
    found, memory = [], MemoryRecords(bytes(message_set))
    while memory.has_next():
        batch = memory.next_batch()
        assert batch.validate_crc()
        for one in batch:
            assert one.validate_crc()
            stamp = -1 if one.timestamp is None else one.timestamp
            found.append(
                Record(
                    one.key, one.value, (), stamp, one.offset, one.timestamp_type or 0
                )
            )
    return found
