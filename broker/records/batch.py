"""Record batches (magic 2): what a broker may know without looking inside.

Kafka stores and ships records in batches. A batch opens with 61 bytes that are never
compressed, and everything that appending, indexing and fetching need is in them. So
a batch is checked, placed and handed out as it came; nobody here decodes a record.

Two fields, the base offset and the leader epoch, lie outside the checksum, so that a
broker can place a batch by patching twelve bytes of the buffer that it arrived in.
The price: a timestamp stamped by the broker lies inside the checksum, and costs one
more pass over the batch.

Source: Kafka's ``DefaultRecordBatch`` (layout), ``LogValidator`` and
``ProduceRequest.validateRecords`` (what is refused, and with which code).
"""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from crc32c import crc32c

from broker.ids import ProducerId
from broker.protocol.errors import ErrorCode, KafkaError, NotAppended
from broker.records.layout import (
    ATTRIBUTES_AT,
    BASE_OFFSET_AT,
    CHECKED,
    CHECKED_AT,
    CODEC_BITS,
    CONTROL_BIT,
    CRC_AT,
    HEADER,
    HEADER_BYTES,
    LEADER_EPOCH_AT,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    MAGIC_AT,
    MAX_TIMESTAMP_AT,
    TIMESTAMP_BIT,
    TRANSACTIONAL_BIT,
)

Buffer = bytes | bytearray | memoryview

NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = ProducerId(-1)

CODEC_NONE: Final = 0
CODEC_GZIP: Final = 1
CODEC_SNAPPY: Final = 2
CODEC_LZ4: Final = 3
CODEC_ZSTD: Final = 4

CREATE_TIME: Final = 0
LOG_APPEND_TIME: Final = 1

_INT64: Final = struct.Struct(">q")
_UINT32: Final = struct.Struct(">I")
_INT32: Final = struct.Struct(">i")
_INT16: Final = struct.Struct(">h")
_INT32_MAX: Final = 2**31 - 1
_ZSTD_SINCE_VERSION: Final = 7


class BatchHeader(NamedTuple):
    """The 61 bytes that open a batch; names as in Kafka's ``RecordBatch``."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: ProducerId
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def codec(self) -> int:
        """0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd; 5 to 7 are nobody's."""
        return self.attributes & CODEC_BITS

    @property
    def timestamp_type(self) -> int:
        """0 = the producer's, 1 = the broker's (``max_timestamp`` for all)."""
        return LOG_APPEND_TIME if self.attributes & TIMESTAMP_BIT else CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_BIT)

    @property
    def size(self) -> int:
        """Bytes of the whole batch, these 61 included."""
        return LOG_OVERHEAD_BYTES + self.batch_length

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def last_sequence(self) -> int:
        """Sequences wrap from 2^31-1 to 0; -1 when the producer is not idempotent."""
        if self.base_sequence < 0:
            return self.base_sequence
        return (self.base_sequence + self.last_offset_delta) & _INT32_MAX


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header that starts at ``position``.

    Raises KafkaError CORRUPT_MESSAGE if fewer than 61 bytes are left.
    """
    if len(buffer) - position < HEADER_BYTES:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "a batch ends inside its header")
    return BatchHeader._make(HEADER.unpack_from(buffer, position))


def checksum(batch: Buffer) -> int:
    """CRC-32C of what the header's ``crc`` covers: all from the attributes on."""
    return int(crc32c(memoryview(batch)[CHECKED_AT:]))


def split(buffer: Buffer) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Each batch of a run of whole batches, without copying.

    Raises KafkaError CORRUPT_MESSAGE at a length that does not fit.
    """
    view = memoryview(buffer)
    position = 0
    while position < len(view):
        header = read_header(view, position)
        end = position + header.size
        if header.size < HEADER_BYTES or end > len(view):
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "a batch is cut off")
        yield header, view[position:end]
        position = end


def check_produced(
    records: Buffer, bytes_max: int, version: int, *, in_transaction: bool = False
) -> BatchHeader:
    """Check the one batch that a producer sent for one partition.

    ``bytes_max`` is the topic's ``max.message.bytes``, ``version`` that of the
    Produce request. The base offset must be 0: the broker gives offsets.
    ``in_transaction``: a transactional batch is taken, its coordinator knows of it.

    Raises KafkaError: INVALID_RECORD, CORRUPT_MESSAGE, MESSAGE_TOO_LARGE,
    UNSUPPORTED_COMPRESSION_TYPE, INVALID_TIMESTAMP,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED.
    """
    header = _sound_header(records, bytes_max, version)
    if header is not None:
        return header
    header = _check_bounds(records)
    _check_request(header, version, in_transaction=in_transaction)
    _check_whole(header, records, bytes_max)
    _check_attributes(header)
    _check_counts(header)
    return header


def _check_request(header: BatchHeader, version: int, *, in_transaction: bool) -> None:
    """Refuse it as ``ProduceRequest.validateRecords``, before it goes anywhere."""
    if header.is_transactional and not in_transaction:
        raise NotAppended(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            "a batch of a transaction, and the request names no transactional id",
        )
    if header.codec == CODEC_ZSTD and version < _ZSTD_SINCE_VERSION:
        raise NotAppended(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"zstd needs Produce {_ZSTD_SINCE_VERSION}",
        )


def _check_whole(header: BatchHeader, records: Buffer, bytes_max: int) -> None:
    """Refuse it in the order of ``UnifiedLog.analyzeAndValidateRecords``."""
    if header.base_offset != 0:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"the base offset should be 0, and is {header.base_offset}",
        )
    if header.size > bytes_max:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch has {header.size} bytes, the topic allows {bytes_max}",
        )
    if checksum(records) != header.crc:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "the batch fails its checksum")


def _sound_header(records: Buffer, bytes_max: int, version: int) -> BatchHeader | None:
    """The header if nothing at all is wrong: what almost every batch comes to."""
    length = len(records)
    if not HEADER_BYTES <= length <= bytes_max:
        return None
    header = tuple.__new__(BatchHeader, HEADER.unpack_from(records))
    base, size, _, magic, crc, attributes, last, _, _, producer_id, _, _, count = header
    if (
        base == 0
        and size + LOG_OVERHEAD_BYTES == length
        and magic == MAGIC
        and 0 <= attributes <= CODEC_ZSTD  # no flags
        and (attributes != CODEC_ZSTD or version >= _ZSTD_SINCE_VERSION)
        and count == last + 1 > 0
        and (producer_id == NO_PRODUCER_ID or _is_idempotent(header))
        and crc32c(memoryview(records)[CHECKED_AT:]) == crc
    ):
        return header
    return None


def _is_idempotent(header: BatchHeader) -> bool:
    return (
        header.producer_id >= 0
        and header.base_sequence >= 0
        and header.producer_epoch >= 0
    )


def _check_bounds(records: Buffer) -> BatchHeader:
    length = len(records)
    if length == 0:
        raise NotAppended(ErrorCode.INVALID_RECORD, "there is no batch")
    if length > MAGIC_AT and records[MAGIC_AT] != MAGIC:
        raise NotAppended(
            ErrorCode.INVALID_RECORD,
            f"only magic {MAGIC} is accepted, not {records[MAGIC_AT]}",
        )
    header = read_header(records)
    if header.size > length:
        raise NotAppended(ErrorCode.INVALID_RECORD, "the only batch is cut off")
    if header.size < HEADER_BYTES:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "the batch is too short for one")
    if header.size < length:
        raise NotAppended(ErrorCode.INVALID_RECORD, "there is more than one batch")
    return header


def _check_attributes(header: BatchHeader) -> None:
    if header.codec > CODEC_ZSTD:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"unknown codec {header.codec}"
        )
    if header.is_control:
        raise KafkaError(ErrorCode.INVALID_RECORD, "clients write no control batches")
    if header.timestamp_type == LOG_APPEND_TIME:
        raise KafkaError(
            ErrorCode.INVALID_TIMESTAMP, "LogAppendTime is the broker's to set"
        )


def _check_counts(header: BatchHeader) -> None:
    if header.record_count <= 0:
        raise KafkaError(ErrorCode.INVALID_RECORD, "the batch has no records")
    if header.last_offset_delta != header.record_count - 1:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"{header.record_count} records cannot end at "
            f"offset delta {header.last_offset_delta}",
        )
    if header.producer_id < NO_PRODUCER_ID:
        raise KafkaError(ErrorCode.INVALID_RECORD, "a producer id below -1")
    if header.producer_id == NO_PRODUCER_ID and header.is_transactional:
        raise KafkaError(ErrorCode.INVALID_RECORD, "a transaction of no producer")
    if header.producer_id != NO_PRODUCER_ID and (
        header.base_sequence < 0 or header.producer_epoch < 0
    ):
        raise KafkaError(
            ErrorCode.INVALID_RECORD, "an idempotent batch without epoch or sequence"
        )


def assign(
    records: bytearray | memoryview, base_offset: int, leader_epoch: int = 0
) -> None:
    """Place the batch, in place: both fields lie outside the checksum."""
    _INT64.pack_into(records, BASE_OFFSET_AT, base_offset)
    _INT32.pack_into(records, LEADER_EPOCH_AT, leader_epoch)


def stamp_log_append_time(records: bytearray | memoryview, now_ms: int) -> None:
    """Give every record the broker's time, in place, and renew the checksum.

    The records keep their deltas; readers of the type bit take ``max_timestamp``.
    Source: Kafka's ``DefaultRecordBatch.setMaxTimestamp``.
    """
    (attributes,) = _INT16.unpack_from(records, ATTRIBUTES_AT)
    _INT16.pack_into(records, ATTRIBUTES_AT, attributes | TIMESTAMP_BIT)
    _INT64.pack_into(records, MAX_TIMESTAMP_AT, now_ms)
    seal(records)


def correct_max_timestamp(records: bytearray | memoryview, newest_ms: int) -> None:
    """Say in the header what the newest timestamp is, in place; renews the checksum.

    Source: Kafka's ``LogValidator``, which never takes a producer's word for it.
    """
    _INT64.pack_into(records, MAX_TIMESTAMP_AT, newest_ms)
    seal(records)


def seal(batch: bytearray | memoryview) -> None:
    """Write the checksum of what the batch now holds."""
    _UINT32.pack_into(batch, CRC_AT, checksum(batch))


def empty_batches(first_offset: int, end_offset: int) -> list[bytes]:
    """Batches without records that span ``[first_offset, end_offset)``.

    A consumer's position follows the last offset of a batch, so these carry it over
    a gap, as what Kafka's own log cleaner leaves behind does. Almost always one.
    """
    batches = []
    position = first_offset
    while position < end_offset:
        delta = min(end_offset - position - 1, _INT32_MAX)
        checked = CHECKED.pack(
            0, delta, NO_TIMESTAMP, NO_TIMESTAMP, NO_PRODUCER_ID, -1, -1, 0
        )
        batches.append(
            HEADER.pack(
                position, HEADER_BYTES - LOG_OVERHEAD_BYTES, 0, MAGIC, crc32c(checked),
                *CHECKED.unpack(checked),
            )
        )  # fmt: skip
        position += delta + 1
    return batches
