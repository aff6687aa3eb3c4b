"""Record batches written naively: what the compiled code is held against."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from broker.records.batch import BatchHeader, read_header, seal
from broker.records.compression import compress, decompress
from broker.records.layout import HEADER

Headers = Sequence[tuple[bytes, bytes | None]]
BASE_TIMESTAMP = 1_700_000_000_000


@dataclass(frozen=True)
class Record:
    """A record as a consumer sees it; ``offset`` is filled in by the batch."""

    key: bytes | None = None
    value: bytes | None = b""
    headers: Headers = ()
    timestamp: int = BASE_TIMESTAMP
    offset: int = -1
    timestamp_type: int = 0


def varint(value: int) -> bytes:
    raw = (value << 1) if value >= 0 else ((-value) << 1) - 1
    out = bytearray()
    while raw >= 0x80:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
    return bytes(out)


def nullable(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def encode_record(record: Record, timestamp_delta: int, offset_delta: int) -> bytes:
    body = b"\0" + varint(timestamp_delta) + varint(offset_delta)
    body += nullable(record.key) + nullable(record.value) + varint(len(record.headers))
    body += b"".join(nullable(key) + nullable(value) for key, value in record.headers)
    return varint(len(body)) + body


def make_batch(
    records: Sequence[Record],
    base_offset: int = 0,
    *,
    codec: int = 0,
    deltas: Sequence[int] | None = None,
    attributes: int = 0,
    producer: tuple[int, int, int] = (-1, -1, -1),
    max_timestamp: int | None = None,
) -> bytearray:
    """One v2 batch; ``producer`` is (id, epoch, base sequence)."""
    deltas = range(len(records)) if deltas is None else deltas
    base_timestamp = records[0].timestamp if records else -1
    body = b"".join(
        encode_record(record, record.timestamp - base_timestamp, delta)
        for record, delta in zip(records, deltas, strict=True)
    )
    last_delta = deltas[-1] if len(deltas) else 0
    if max_timestamp is None:
        max_timestamp = max((record.timestamp for record in records), default=-1)
    return wrap(
        body, len(records), last_delta, base_offset, codec | attributes,
        base_timestamp, max_timestamp, producer,
    )  # fmt: skip


def wrap(
    body: bytes,
    count: int,
    last_delta: int = 0,
    base_offset: int = 0,
    attributes: int = 0,
    base_timestamp: int = BASE_TIMESTAMP,
    max_timestamp: int = BASE_TIMESTAMP,
    producer: tuple[int, int, int] = (-1, -1, -1),
) -> bytearray:
    """A batch around any bytes, with a right checksum: sound or not is up to them."""
    compressed = compress(attributes & 7, body)
    header = BatchHeader(
        base_offset, 49 + len(compressed), 0, 2, 0, attributes, last_delta,
        base_timestamp, max_timestamp, *producer, count,
    )  # fmt: skip
    batch = bytearray(HEADER.pack(*header) + compressed)
    seal(batch)
    return batch


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def varint(self) -> int:
        raw = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            raw |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return (raw >> 1) ^ -(raw & 1)

    def nullable(self) -> bytes | None:
        length = self.varint()
        if length < 0:
            return None
        self.at += length
        return self.data[self.at - length : self.at]


def read_batch(batch: bytes | bytearray | memoryview) -> list[Record]:
    """The records of a sound batch, read naively."""
    header = read_header(batch)
    body = bytes(decompress(header.codec, memoryview(batch)[61:], 1 << 30))
    reader = _Reader(body)
    records = []
    for _ in range(header.record_count):
        reader.varint()
        reader.at += 1
        timestamp = header.base_timestamp + reader.varint()
        if header.timestamp_type:
            timestamp = header.max_timestamp
        offset = header.base_offset + reader.varint()
        key, value = reader.nullable(), reader.nullable()
        pairs = []
        for _ in range(reader.varint()):
            name = reader.nullable()
            assert name is not None
            pairs.append((name, reader.nullable()))
        records.append(
            Record(key, value, tuple(pairs), timestamp, offset, header.timestamp_type)
        )
    assert reader.at == len(body)
    return records


def patch(batch: bytearray, form: str, position: int, *values: int) -> bytearray:
    """The same batch with one field of the header changed and the checksum right."""
    changed = bytearray(batch)
    struct.pack_into(form, changed, position, *values)
    seal(changed)
    return changed
