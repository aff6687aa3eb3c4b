"""Batch headers as a producer's batch would have them, for tests of the log."""

from broker.records.batch import BatchHeader


def header(
    count: int = 1,
    *,
    base: int = 0,
    producer: int = -1,
    epoch: int = 0,
    sequence: int = 0,
    timestamp: int = 1_000,
) -> BatchHeader:
    idempotent = producer >= 0
    return BatchHeader(
        base_offset=base,
        batch_length=100,
        partition_leader_epoch=0,
        magic=2,
        crc=0,
        attributes=0,
        last_offset_delta=count - 1,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=producer,
        producer_epoch=epoch if idempotent else -1,
        base_sequence=sequence if idempotent else -1,
        record_count=count,
    )
