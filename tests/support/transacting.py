"""Transactional batches and markers into a partition, as its coordinator would let in.

For tests of those who read: no producer, and no coordinator, is in between.
"""

import asyncio
from typing import Any

from broker.protocol.errors import KafkaError
from broker.records.layout import TRANSACTIONAL_BIT
from broker.records.markers import Marker
from broker.runtime.partitions.partition import Partition, Reply
from tests.support.rig import batch_of

VERSION = 9
NOW_MS = 1_700_000_000_000


async def record(
    partition: Partition, producer: int, sequence: int = 0, *values: bytes
) -> int:
    """A transactional batch is durable; its offset. Raises KafkaError."""
    batch = batch_of(
        *(values or (b"%d" % producer,)),
        producer=(producer, 0, sequence),
        attributes=TRANSACTIONAL_BIT,
    )
    done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    partition.append(batch, VERSION, NOW_MS, _resolving(done), in_transaction=True)
    return await done


async def marker(partition: Partition, producer: int, commit: bool) -> int:
    """A marker is durable; its offset. Raises KafkaError."""
    done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    partition.append_marker(producer, 0, Marker(commit), NOW_MS, _resolving(done))
    return await done


def _resolving(done: "asyncio.Future[Any]") -> Reply:
    def reply(base: int, _stamp: int, error: KafkaError | None) -> None:
        if error is None:
            done.set_result(base)
        else:
            done.set_exception(error)

    return reply
