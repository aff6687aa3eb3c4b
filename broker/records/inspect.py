"""Looking inside a batch before it is kept: the one time that it can be refused.

A checksum only says that the bytes are those that the producer sent. If a producer
sends nonsense under a right checksum, every consumer of the partition stops at it, and
so does the compaction of the topic, for ever. So each batch is unfolded (within a
bound) and walked once, by a compiled loop that does not hold the interpreter's lock,
on the thread that writes the segments.

The price, for uncompressed records, is one pass at a gigabyte or more per second; for
compressed ones, their decompression.

Source: Kafka's ``LogValidator`` and ``DefaultRecord``.
"""

from functools import cache
from typing import Any, NamedTuple

from broker.protocol.errors import ErrorCode, KafkaError
from broker.records.batch import (
    CODEC_NONE,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    BatchHeader,
    Buffer,
)
from broker.records.compression import UNCOMPRESSED_BYTES_MAX
from broker.records.unfold import Unfolder

_idle: list[Unfolder] = []  # as many as there were threads that inspected at once


class Inspection(NamedTuple):
    """What was learnt from a batch that is sound."""

    uncompressed_bytes: int
    """Bytes of the records, unfolded, without the 61 of the header."""
    null_keys: int
    """Records without a key; a compacted topic takes none."""
    null_key_at: int
    """The first of them."""
    oldest_ms: int
    """The oldest timestamp that is one."""
    oldest_at: int
    """Its record; -1: no record has a timestamp."""
    newest_ms: int
    """The newest timestamp, in truth: the batch's header may say another."""
    newest_at: int


def inspect_batch(batch: Buffer, header: BatchHeader) -> Inspection:
    """Walk every record of a batch that passed `check_produced`.

    Raises KafkaError INVALID_RECORD, CORRUPT_MESSAGE (compressed data are damaged) or
    INVALID_TIMESTAMP. Safe to call from any thread.
    """
    if header.codec != CODEC_NONE:
        return _inspect_folded(batch, header)
    return _inspect(header, batch, HEADER_BYTES, header.size)


def _inspect_folded(batch: Buffer, header: BatchHeader) -> Inspection:
    folded = memoryview(batch)[HEADER_BYTES : header.size]
    try:
        unfolder = _idle.pop()
    except IndexError:
        unfolder = Unfolder()
    try:
        records = unfolder.unfold(header.codec, folded, UNCOMPRESSED_BYTES_MAX)
        return _inspect(header, records, 0, len(records))
    finally:
        _idle.append(unfolder)


def _inspect(header: BatchHeader, records: Buffer, at: int, end: int) -> Inspection:
    if header.timestamp_type == LOG_APPEND_TIME:
        base_timestamp = header.max_timestamp
    else:
        base_timestamp = header.base_timestamp
    numpy, kernels, check_records = _compiled()
    seen = numpy.zeros(6, numpy.int64)
    code, record = check_records(
        numpy.frombuffer(records, numpy.uint8),
        at,
        end,
        header.record_count,
        base_timestamp,
        seen,
    )
    if code != kernels.OK:
        raise _refusal(kernels, code, record)
    return Inspection(end - at, *seen.tolist())


def _refusal(kernels: Any, code: int, record: int) -> KafkaError:
    if code == kernels.BAD_TIMESTAMP:
        error = ErrorCode.INVALID_TIMESTAMP
    else:
        error = ErrorCode.INVALID_RECORD
    return KafkaError(error, f"record {record} of the batch: {kernels.WHY[code]}")


@cache
def _compiled() -> tuple[Any, Any, Any]:
    """The compiled loops, loaded when first needed: half a second from their cache."""
    import numpy

    from broker.records import kernels
    from broker.records.kernels_check import check_records

    return numpy, kernels, check_records


def warm() -> None:
    """Load the compiled loops now, so that no producer waits for it."""
    _compiled()
