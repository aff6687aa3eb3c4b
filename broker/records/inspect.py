"""Looking inside a batch before it is kept: the one time that it can be refused.

A checksum only says that the bytes are those that the producer sent. If a producer
sends nonsense under a right checksum, every consumer of the partition stops at it, and
so does the compaction of the topic, for ever. So each batch is decompressed (within the
bounds of ``limits``) and walked once, by a compiled loop that does not hold the
interpreter's lock, on the thread that writes the segments.

The price, for uncompressed records, is one pass at a gigabyte or more per second; for
compressed ones, their decompression. A batch that its topic does not take is walked,
and decompressed, a second time to name its records.

Source: Kafka's ``LogValidator`` and ``DefaultRecord``.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

from broker.protocol.errors import ErrorCode, KafkaError
from broker.records.batch import (
    CODEC_NONE,
    LOG_APPEND_TIME,
    BatchHeader,
    Buffer,
)
from broker.records.decompress import Decompressor
from broker.records.layout import HEADER_BYTES
from broker.records.limits import (
    HEADERS_MAX,
    RECORD_ERRORS_MAX,
    RECORDS_MAX,
    UNCOMPRESSED_BYTES_MAX,
)

_idle: list[Decompressor] = []  # as many as there were threads that inspected at once


class Inspection(NamedTuple):
    """What was learnt from a batch that is sound."""

    uncompressed_bytes: int
    """Bytes of the records, decompressed, without the 61 of the header."""
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
    headers: int
    """Headers of all records."""


class Fault(NamedTuple):
    """A record that its topic does not take: no key, or else a time out of range."""

    record: int
    is_keyless: bool
    timestamp_ms: int


def inspect_batch(batch: Buffer, header: BatchHeader) -> Inspection:
    """Walk every record of a batch that passed `check_produced`.

    Raises KafkaError INVALID_RECORD, CORRUPT_MESSAGE (compressed data are damaged) or
    INVALID_TIMESTAMP. Safe to call from any thread.
    """
    if header.record_count > RECORDS_MAX:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"a batch of {header.record_count} records; {RECORDS_MAX} are accepted",
        )
    numpy, kernels, checks = _compiled()
    seen = numpy.zeros(checks.SEEN, numpy.int64)
    with _records(batch, header) as (records, at, end):
        code, record = checks.check_records(
            numpy.frombuffer(records, numpy.uint8),
            at,
            end,
            header.record_count,
            _base_timestamp(header),
            seen,
        )
    if code != kernels.OK:
        raise _refusal(kernels, code, record)
    found = Inspection(end - at, *seen.tolist())
    if found.headers > HEADERS_MAX:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"a batch with {found.headers} headers; {HEADERS_MAX} are accepted",
        )
    return found


def find_faults(
    batch: Buffer,
    header: BatchHeader,
    *,
    needs_keys: bool,
    oldest_ms: int,
    newest_ms: int,
) -> tuple[list[Fault], int]:
    """The records of an inspected batch that its topic does not take.

    Those without a key where ``needs_keys``, and those whose timestamp is one and not
    within ``[oldest_ms, newest_ms]``: the first `RECORD_ERRORS_MAX`, and how many there
    are in all. Safe to call from any thread.
    """
    numpy, _, checks = _compiled()
    faults = numpy.empty((3, RECORD_ERRORS_MAX), numpy.int64)
    with _records(batch, header) as (records, at, end):
        total = checks.find_faults(
            numpy.frombuffer(records, numpy.uint8),
            at,
            end,
            header.record_count,
            _base_timestamp(header),
            needs_keys,
            oldest_ms,
            newest_ms,
            faults,
        )
    named = faults[:, :total].T.tolist()
    return [Fault(i, what == checks.NO_KEY, ms) for i, what, ms in named], total


@contextmanager
def _records(batch: Buffer, header: BatchHeader) -> Iterator[tuple[Buffer, int, int]]:
    """Decompressed records: in which buffer, from where to where; valid inside."""
    if header.codec == CODEC_NONE:
        yield batch, HEADER_BYTES, header.size
        return
    compressed = memoryview(batch)[HEADER_BYTES : header.size]
    try:
        decompressor = _idle.pop()
    except IndexError:
        decompressor = Decompressor()
    try:
        records = decompressor.decompress(
            header.codec, compressed, UNCOMPRESSED_BYTES_MAX
        )
        yield records, 0, len(records)
    finally:
        _idle.append(decompressor)


def _base_timestamp(header: BatchHeader) -> int:
    if header.timestamp_type == LOG_APPEND_TIME:
        return header.max_timestamp
    return header.base_timestamp


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

    from broker.records import kernels, kernels_check

    return numpy, kernels, kernels_check


def warm() -> None:
    """Load the compiled loops now, so that no producer waits for it."""
    _compiled()
