"""A checkpoint's payload: what segments and tables cannot tell about the logs.

Segments are released once their records stand in tables, and with them goes what they
said about producers. The checkpoint keeps that, for all partitions in one payload that
the write-ahead log writes atomically (and checks when it reads it back).

Layout, big-endian: format, count; then for each partition its topic's number, its own,
the durable end, and the producers' bytes behind their length. Then the number of holes
that refused batches left, and for each the topic's number, the partition, the first
offset and the end. Format 3 goes on with the number of partitions that have open or
aborted transactions, and for each the topic's number, the partition, and their bytes
behind their length; it is written only if there are any. That opens no way back: an
older program could read format 2, and refuses the catalog, whose schema was raised by
the first start of one that knows transactions. Format 1 is read as well: it had no
holes, and the producers had batches in flight, which the entries behind its position
did not repeat.
"""

import struct
from collections.abc import Iterable, Mapping
from typing import Final

from broker.ids import TopicPartition
from broker.log.partition import Hole, LogSnapshot, PartitionLog

_WITH_TRANSACTIONS: Final = 3
_FORMAT: Final = 2
_WITH_IN_FLIGHT: Final = 1
_HEAD: Final = struct.Struct(">BI")
_PARTITION: Final = struct.Struct(">IiqI")
_COUNT: Final = struct.Struct(">I")
_HOLE: Final = struct.Struct(">Iiqq")
_TRANSACTIONS: Final = struct.Struct(">IiI")


def pack(logs: Iterable[tuple[TopicPartition, PartitionLog]]) -> bytes:
    """The payload for these logs, of (topic number, partition)."""
    payload = Payload()
    for key, log in logs:
        payload.add(key, log)
    return b"".join(payload.pieces())


class Payload:
    """A payload that is put together log by log; its pieces are not joined here."""

    __slots__ = ("_holes", "_logs", "_transactions")

    def __init__(self) -> None:
        self._logs: list[bytes] = []
        self._holes: list[bytes] = []
        self._transactions: list[bytes] = []

    def add(self, key: TopicPartition, log: PartitionLog) -> None:
        """Take in what one log says of itself now."""
        snapshot = log.snapshot()
        producers = snapshot.producers
        self._logs.append(_PARTITION.pack(*key, snapshot.durable, len(producers)))
        self._logs.append(producers)
        for hole in snapshot.holes or ():
            self._holes.append(_HOLE.pack(*key, *hole))
        if transactions := snapshot.transactions:
            self._transactions.append(_TRANSACTIONS.pack(*key, len(transactions)))
            self._transactions.append(transactions)

    def pieces(self) -> tuple[bytes, ...]:
        """The payload, piece by piece."""
        version = _WITH_TRANSACTIONS if self._transactions else _FORMAT
        head = _HEAD.pack(version, len(self._logs) // 2)
        holes = _COUNT.pack(len(self._holes)), *self._holes
        if not self._transactions:
            return (head, *self._logs, *holes)
        count = _COUNT.pack(len(self._transactions) // 2)
        return (head, *self._logs, *holes, count, *self._transactions)


def unpack(payload: bytes) -> Mapping[TopicPartition, LogSnapshot]:
    """What ``pack`` wrote. Raises ValueError if it is something else."""
    snapshots: dict[TopicPartition, LogSnapshot] = {}
    try:
        version, count = _HEAD.unpack_from(payload)
        if version not in (_WITH_TRANSACTIONS, _FORMAT, _WITH_IN_FLIGHT):
            raise ValueError(f"checkpoint of format {version}")
        position = _HEAD.size
        for _ in range(count):
            number, partition, durable, length = _PARTITION.unpack_from(
                payload, position
            )
            position += _PARTITION.size
            producers = _piece(payload, position, length)
            snapshots[number, partition] = LogSnapshot(durable, producers, None)
            position += length
        if version != _WITH_IN_FLIGHT:
            position = _unpack_holes(payload, position, snapshots)
        if version == _WITH_TRANSACTIONS:
            position = _unpack_transactions(payload, position, snapshots)
    except struct.error as error:
        raise ValueError("the checkpoint is cut off") from error
    if position != len(payload):
        raise ValueError("the checkpoint goes on after its end")
    return snapshots


def _unpack_holes(
    payload: bytes, position: int, snapshots: dict[TopicPartition, LogSnapshot]
) -> int:
    """Add the holes to the snapshots; the position behind them."""
    holes: dict[TopicPartition, tuple[Hole, ...]] = dict.fromkeys(snapshots, ())
    (count,) = _COUNT.unpack_from(payload, position)
    position += _COUNT.size
    for _ in range(count):
        number, partition, first, end = _HOLE.unpack_from(payload, position)
        if (number, partition) not in holes:
            raise ValueError("the checkpoint has a hole in no partition")
        holes[number, partition] += ((first, end),)
        position += _HOLE.size
    for key, found in holes.items():
        snapshots[key] = snapshots[key]._replace(holes=found)
    return position


def _unpack_transactions(
    payload: bytes, position: int, snapshots: dict[TopicPartition, LogSnapshot]
) -> int:
    """Add the transactions to the snapshots; the position behind them."""
    (count,) = _COUNT.unpack_from(payload, position)
    position += _COUNT.size
    for _ in range(count):
        number, partition, length = _TRANSACTIONS.unpack_from(payload, position)
        position += _TRANSACTIONS.size
        if (number, partition) not in snapshots:
            raise ValueError("the checkpoint has transactions in no partition")
        snapshot = snapshots[number, partition]
        piece = _piece(payload, position, length)
        snapshots[number, partition] = snapshot._replace(transactions=piece)
        position += length
    return position


def _piece(payload: bytes, position: int, length: int) -> bytes:
    piece = payload[position : position + length]
    if len(piece) != length:
        raise ValueError("the checkpoint is cut off")
    return piece
