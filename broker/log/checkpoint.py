"""A checkpoint's payload: what segments and tables cannot tell about the logs.

Segments are released once their records stand in tables, and with them goes what they
said about producers. The checkpoint keeps that, for all partitions in one payload that
the write-ahead log writes atomically (and checks when it reads it back).

Layout, big-endian: format, count; then for each partition its topic's number, its own,
the durable end, and the producers' bytes behind their length.
"""

import struct
from collections.abc import Iterable, Mapping
from typing import Final

from broker.log.partition import LogSnapshot, PartitionLog

TopicPartition = tuple[int, int]

_FORMAT: Final = 1
_HEAD: Final = struct.Struct(">BI")
_PARTITION: Final = struct.Struct(">IiqI")


def pack(logs: Iterable[tuple[TopicPartition, PartitionLog]]) -> bytes:
    """The payload for these logs, of (topic number, partition)."""
    parts, count = [b""], 0
    for (number, partition), log in logs:
        snapshot = log.snapshot()
        parts.append(
            _PARTITION.pack(
                number, partition, snapshot.durable, len(snapshot.producers)
            )
        )
        parts.append(snapshot.producers)
        count += 1
    parts[0] = _HEAD.pack(_FORMAT, count)
    return b"".join(parts)


def unpack(payload: bytes) -> Mapping[TopicPartition, LogSnapshot]:
    """What ``pack`` wrote. Raises ValueError if it is something else."""
    snapshots: dict[TopicPartition, LogSnapshot] = {}
    try:
        version, count = _HEAD.unpack_from(payload)
        if version != _FORMAT:
            raise ValueError(f"checkpoint of format {version}")
        position = _HEAD.size
        for _ in range(count):
            number, partition, durable, length = _PARTITION.unpack_from(
                payload, position
            )
            position += _PARTITION.size
            producers = payload[position : position + length]
            if len(producers) != length:
                raise ValueError("the checkpoint is cut off")
            snapshots[number, partition] = LogSnapshot(durable, producers)
            position += length
    except struct.error as error:
        raise ValueError("the checkpoint is cut off") from error
    if position != len(payload):
        raise ValueError("the checkpoint goes on after its end")
    return snapshots
