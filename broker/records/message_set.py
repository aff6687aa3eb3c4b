"""Message sets (magic 0 and 1), as Kafka 0.8 to 0.10 wrote them, to batches and back.

The problem: clients of that age know no batches. What they send must be in the log as
what everybody else reads, and what they fetch must be what they know: messages with a
checksum each, compressed as a message whose value is a message set. The idea: one
conversion on the way in, one on the way out, each of two compiled passes; what stands
in the log and in the table never is an old form.

Up, all messages of a set become one batch, compressed with the codec that they came
with. Keys, values, nulls, order, timestamps stay; magic 0 has no timestamps, and so its
records have none. Down, headers and all that magic 2 added are left out, and batches
of control records altogether.

The price is a second in CPU for some hundreds of megabytes (of gzip two), and
memory for the decompressed set and the new one (both bounded by `limits`): call it on a
thread.

Source: Kafka 3.9 ``LogValidator.convertAndAssignOffsetsNonCompressed`` (up),
``RecordsUtil.downConvert`` (down), ``AbstractLegacyRecordBatch`` (wrappers),
``Lz4BlockOutputStream`` (KAFKA-3160).
"""

import struct
import zlib
from functools import cache
from typing import Any, Final, NamedTuple

from broker.protocol.errors import ErrorCode, KafkaError
from broker.records import compression
from broker.records.batch import (
    CODEC_GZIP,
    CODEC_LZ4,
    CODEC_NONE,
    CODEC_ZSTD,
    LOG_APPEND_TIME,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    BatchHeader,
    Buffer,
    seal,
)
from broker.records.layout import HEADER, HEADER_BYTES, LOG_OVERHEAD_BYTES, MAGIC
from broker.records.limits import RECORDS_MAX, UNCOMPRESSED_BYTES_MAX, WRAPPERS_MAX
from broker.records.lz4_frames import compress_blocks, with_checksum

MESSAGE_SET_BYTES_MAX: Final = UNCOMPRESSED_BYTES_MAX // 4
"""What is made at once, and one message more: what decompresses to far more than
clients put into a batch is given in parts."""

_INT64: Final = struct.Struct(">q")
_INT32: Final = struct.Struct(">i")
_EACH_ITS_OWN: Final = -1


class _Set(NamedTuple):
    """Messages that are not compressed: where they lie, and their magic if one."""

    data: Buffer
    at: int
    end: int
    magic: int


class Messages(NamedTuple):
    """A message set, and the offset from which on there is more, or the next batch."""

    data: Buffer
    next_offset: int


class _Written(NamedTuple):
    """Messages that are not compressed, the offset of the last, and what follows."""

    data: memoryview
    last_offset: int
    next_offset: int


def to_batch(message_set: Buffer, bytes_max: int = UNCOMPRESSED_BYTES_MAX) -> bytearray:
    """The one batch that a produced message set becomes, with base offset 0.

    Larger than ``bytes_max`` only if it has to be: what its producer compressed well
    enough is not refused because the broker was in a hurry.

    Raises KafkaError: INVALID_RECORD, CORRUPT_MESSAGE, INVALID_TIMESTAMP,
    UNSUPPORTED_COMPRESSION_TYPE.
    """
    numpy, kernels = _compiled()
    codec, sets = _flat(message_set)
    totals = numpy.zeros(kernels.TOTALS, numpy.int64)
    for one in sets:
        data = numpy.frombuffer(one.data, numpy.uint8)
        code, number = kernels.measure_up(data, one.at, one.end, one.magic, totals)
        if code:
            raise _refusal(code, number)
    count, size = int(totals[kernels.COUNT]), int(totals[kernels.BYTE_COUNT])
    if count > RECORDS_MAX:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"a set of {count} messages; {RECORDS_MAX} are accepted",
        )
    base = int(totals[kernels.BASE_TIMESTAMP])
    records = numpy.empty(HEADER_BYTES + size, numpy.uint8)
    number, to = 0, HEADER_BYTES
    for one in sets:
        data = numpy.frombuffer(one.data, numpy.uint8)
        number, to = kernels.write_up(data, one.at, one.end, number, base, records, to)
    batch = _compressed(codec, records.data, bytes_max)
    return _sealed(codec, batch, count, base, int(totals[kernels.MAX_TIMESTAMP]))


def to_message_set(
    header: BatchHeader,
    batch: Buffer,
    magic: int,
    first_offset: int,
    bytes_max: int = MESSAGE_SET_BYTES_MAX,
) -> Messages:
    """What a client of ``magic`` (0 or 1) reads of a batch from ``first_offset`` on.

    As many messages as fill ``bytes_max``, at least one; of a compressed batch all, or
    as many as fill `MESSAGE_SET_BYTES_MAX`. None of a batch of control records.

    Raises KafkaError: CORRUPT_MESSAGE; UNSUPPORTED_COMPRESSION_TYPE for zstd, which no
    client of that age knows.
    """
    if header.is_control or header.record_count <= 0:
        return Messages(b"", header.last_offset + 1)
    if header.codec == CODEC_ZSTD:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Fetch version 10"
        )
    if header.codec == CODEC_NONE:
        bare = _messages(header, batch, HEADER_BYTES, magic, first_offset, bytes_max)
        return Messages(bare.data, bare.next_offset)
    records = compression.decompress(
        header.codec, memoryview(batch)[HEADER_BYTES:], UNCOMPRESSED_BYTES_MAX
    )
    inner = _messages(header, records, 0, magic, first_offset, MESSAGE_SET_BYTES_MAX)
    wrapper = _wrapper(header, inner, magic) if len(inner.data) else b""
    return Messages(wrapper, inner.next_offset)


def first_message_bytes(message_set: Buffer) -> int:
    """Bytes of the first message; 0 if there is none."""
    if not len(message_set):
        return 0
    kernels = _compiled()[1]
    (size,) = _INT32.unpack_from(message_set, kernels.SIZE_AT)
    whole: int = size + kernels.LOG_OVERHEAD_BYTES
    return whole


def _flat(message_set: Buffer) -> tuple[int, list[_Set]]:
    """(last codec, sets of messages that are not compressed), in their order."""
    numpy, kernels = _compiled()
    data = numpy.frombuffer(message_set, numpy.uint8)
    fields = numpy.zeros(8, numpy.int64)
    sets: list[_Set] = []
    codec, at, left, wrappers = CODEC_NONE, 0, UNCOMPRESSED_BYTES_MAX, 0
    if not len(data):
        raise KafkaError(ErrorCode.INVALID_RECORD, "there is no message")
    while at < len(data):
        begun, stop, code = kernels.next_wrapper(data, at, len(data), fields)
        if code:
            raise _refusal(code, len(sets))
        if begun > at:
            sets.append(_Set(message_set, at, begun, _EACH_ITS_OWN))
        if begun < stop:
            wrappers += 1
            _check_wrappers(wrappers)
            _, magic, attributes, _, _, _, value_at, length = fields.tolist()
            codec = attributes & kernels.CODEC_BITS
            value = memoryview(message_set)[value_at : value_at + length]
            inner = _decompress(codec, value, magic, left)
            left -= len(inner)
            sets.append(_Set(inner, 0, len(inner), magic))
        at = stop
    return codec, sets


def _check_wrappers(count: int) -> None:
    if count > WRAPPERS_MAX:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"a set of more than {WRAPPERS_MAX} compressed messages",
        )


def _decompress(codec: int, value: memoryview, magic: int, limit: int) -> Buffer:
    if codec == CODEC_LZ4 and magic == 0:
        value = memoryview(with_checksum(value))
    inner = compression.decompress(codec, value, limit)
    if not len(inner):
        raise KafkaError(ErrorCode.INVALID_RECORD, "a compressed set without messages")
    return inner


def _compressed(codec: int, room: memoryview, bytes_max: int) -> bytearray:
    """Records behind 61 bytes for a header, as ``room`` has them, compressed."""
    if codec == CODEC_NONE:
        return bytearray(room)
    data = _compress(codec, room[HEADER_BYTES:])
    if codec == CODEC_GZIP and HEADER_BYTES + len(data) > bytes_max:
        data = compression.compress(codec, room[HEADER_BYTES:])
    return bytearray(HEADER_BYTES) + data


def _sealed(
    codec: int, batch: bytearray, count: int, base_ms: int, newest_ms: int
) -> bytearray:
    """The batch, its header written into its first 61 bytes."""
    HEADER.pack_into(
        batch, 0, 0, len(batch) - LOG_OVERHEAD_BYTES, 0, MAGIC, 0, codec, count - 1,
        base_ms, newest_ms, NO_PRODUCER_ID, -1, -1, count,
    )  # fmt: skip
    seal(batch)
    return batch


def _compress(codec: int, data: Buffer) -> bytes:
    if codec == CODEC_LZ4:
        return compress_blocks(data)
    if codec == CODEC_GZIP:
        return compression.compress_gzip_fast(data)
    return compression.compress(codec, data)


def _messages(
    header: BatchHeader,
    data: Buffer,
    at: int,
    magic: int,
    first_offset: int,
    bytes_max: int,
) -> _Written:
    """The records from ``first_offset`` on, as many as fill ``bytes_max``."""
    numpy, kernels = _compiled()
    records = numpy.frombuffer(data, numpy.uint8)
    totals = numpy.zeros(kernels.TOTALS, numpy.int64)
    where, base = (records, at, len(records)), header.base_offset
    code, number = kernels.measure_down(
        *where, header.record_count, base, first_offset, magic, bytes_max, totals
    )
    if code:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"record {number} of a batch cannot be read"
        )
    out = numpy.empty(int(totals[kernels.BYTE_COUNT]), numpy.uint8)
    is_stamped = header.timestamp_type == LOG_APPEND_TIME
    stamp = header.max_timestamp if is_stamped else NO_TIMESTAMP
    is_relative = magic == 1 and header.codec != CODEC_NONE
    walked, last = int(totals[kernels.WALKED]), int(totals[kernels.LAST_OFFSET])
    kernels.write_down(
        *where, walked, base, first_offset, magic, header.base_timestamp, stamp,
        is_relative, out,
    )  # fmt: skip
    whole = walked == header.record_count
    return _Written(out.data, last, (header.last_offset if whole else last) + 1)


def _wrapper(header: BatchHeader, inner: _Written, magic: int) -> bytes:
    """The message whose value is a compressed message set."""
    value: Buffer = _compress(header.codec, inner.data)
    attributes = header.codec
    time = b""
    if magic == 0 and header.codec == CODEC_LZ4:
        value = with_checksum(value, of_magic_0=True)
    if magic == 1:
        time = _INT64.pack(header.max_timestamp)
        if header.timestamp_type == LOG_APPEND_TIME:
            attributes |= _compiled()[1].TIMESTAMP_BIT
    tail = time + struct.pack(">ii", -1, len(value))
    size = 6 + len(tail) + len(value)
    checked = struct.pack(">bb", magic, attributes) + tail
    crc = zlib.crc32(value, zlib.crc32(checked))
    return struct.pack(">qiI", inner.last_offset, size, crc) + checked + value


def _refusal(code: int, number: int) -> KafkaError:
    kernels = _compiled()[1]
    error = ErrorCode.INVALID_RECORD
    if code in (kernels.BAD_TIMESTAMP, kernels.BROKER_TIME):
        error = ErrorCode.INVALID_TIMESTAMP
    elif code in (kernels.BAD_LENGTH, kernels.BAD_CHECKSUM):
        error = ErrorCode.CORRUPT_MESSAGE
    elif code == kernels.BAD_CODEC:
        error = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    return KafkaError(error, f"message {number} of the set: {kernels.WHY[code]}")


@cache
def _compiled() -> tuple[Any, Any]:
    """The compiled loops, loaded when first needed, as in `inspect`."""
    import numpy

    from broker.records import kernels_message_set

    return numpy, kernels_message_set
