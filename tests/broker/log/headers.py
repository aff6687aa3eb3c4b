"""Batch headers as a producer's batch would have them, for tests of the log."""

from broker.records.batch import BatchHeader, read_header
from broker.records.layout import TRANSACTIONAL_BIT
from broker.records.markers import Marker, marker_batch


def header(
    count: int = 1,
    *,
    base: int = 0,
    producer: int = -1,
    epoch: int = 0,
    sequence: int = 0,
    timestamp: int = 1_000,
    transactional: bool = False,
) -> BatchHeader:
    idempotent = producer >= 0
    return BatchHeader(
        base_offset=base,
        batch_length=100,
        partition_leader_epoch=0,
        magic=2,
        crc=0,
        attributes=TRANSACTIONAL_BIT if transactional else 0,
        last_offset_delta=count - 1,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=producer,
        producer_epoch=epoch if idempotent else -1,
        base_sequence=sequence if idempotent else -1,
        record_count=count,
    )


def marker_header(
    producer: int, epoch: int = 0, *, base: int = 0, now_ms: int = 1_000
) -> BatchHeader:
    """The header of a marker; what it says does not stand there."""
    batch = marker_batch(producer, epoch, Marker(True), now_ms)
    return read_header(batch)._replace(base_offset=base)
