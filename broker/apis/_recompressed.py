"""What producers send to topics that keep their batches in a codec of their own.

The problem: compressing a batch again takes milliseconds for each megabyte, and up to
64 MiB while it is decompressed. The idea: as old message sets are converted: on
threads, few at once in the whole broker, one batch of a request after another; a
connection's next request waits until all have their place. What comes of them takes
bytes of one budget until it is answered, and nothing is compressed before there is
room for it. The price: who produces in another codec than the topic's is not pipelined,
and waits for the two places that conversions have; in the same codec it costs one look.

Source: Kafka's ``LogValidator``, which does it for the thread of the request.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from broker.apis._produce_again import partition_of
from broker.dispatch.context import Context
from broker.dispatch.turns import ITEMS_A_TURN, Steps
from broker.protocol.buffers import Buffer
from broker.protocol.errors import KafkaError
from broker.protocol.messages.produce import ProduceRequest
from broker.records.batch import CODEC_ZSTD
from broker.records.recompress import TooLarge, codec_of, recompressed
from broker.runtime.budget import Reservation
from broker.runtime.partitions.overdue import timed_out
from broker.runtime.partitions.partition import Partition
from broker.runtime.services import RECOMPRESSED_BYTES_MAX, Broker

RESERVED_BYTES_MAX = RECOMPRESSED_BYTES_MAX // 4
"""Of a topic that takes larger batches: some of them are under way at once."""
NO_ACKS = 0
ZSTD_SINCE = 7
"""Version of Produce. What the broker compresses is in no codec of the client's."""


def is_wanted(request: ProduceRequest, context: Context) -> Steps[bool]:
    """Whether some batch of a request has to be compressed anew."""
    partitions = context.broker.partitions
    if not partitions.recompressed:
        return False
    looked_at = 0
    for data in request.topic_data:
        for one in data.partition_data:
            looked_at += 1
            if looked_at % ITEMS_A_TURN == 0:
                yield
            try:
                found = partition_of(data, one.index, context.version, partitions)
            except KafkaError:
                continue  # it is refused when its turn comes
            if found.target is not None and found.target.differs_from(one.records):
                return True
    return False


class Kept(NamedTuple):
    """A batch as it is to be appended, and the version of Produce it may be looked at
    as; or ``error``, for which it is refused, once its transaction has been asked.
    ``release`` is called when it is answered."""

    records: Buffer | None
    version: int
    release: Callable[[], None] | None = None
    error: KafkaError | None = None


def waits_until_s(request: ProduceRequest) -> float | None:
    """Until when all batches of a request that begins now may wait for room, on the
    loop's clock; None: who asks for no answer is held back, however long."""
    if request.acks == NO_ACKS:
        return None
    return asyncio.get_running_loop().time() + max(request.timeout_ms, 1) / 1000


async def as_kept(
    records: Buffer | None,
    partition: Partition,
    version: int,
    broker: Broker,
    until_s: float | None,
) -> Kept:
    """A batch in its topic's codec; room for it is waited for as `waits_until_s`.

    What is no sound batch, or in a codec that the version has not, stays as it is, and
    so does what the log would not take: it is refused where it is appended.
    """
    target = partition.target
    if records is None or target is None or not target.differs_from(records):
        return Kept(records, version)
    if version < ZSTD_SINCE and codec_of(records) == CODEC_ZSTD:
        return Kept(records, version)
    if broker.wal.refusal is not None:
        return Kept(records, version)
    bytes_max = partition.config.max_message_bytes
    try:
        async with asyncio.timeout_at(until_s):
            reserved = await _reserved(broker, min(bytes_max, RESERVED_BYTES_MAX))
    except TimeoutError:
        partition.note_attempt(records)
        return Kept(records, version, error=timed_out())
    try:
        async with broker.conversions:
            again = await asyncio.get_running_loop().run_in_executor(
                None, recompressed, records, target, bytes_max
            )
    except BaseException as error:
        reserved.release()
        if isinstance(error, TooLarge):
            return Kept(records, version, error=error)
        if isinstance(error, KafkaError):
            return Kept(records, version)
        raise
    reserved.resize(len(again))
    return Kept(again, max(version, ZSTD_SINCE), reserved.release)


async def _reserved(broker: Broker, size: int) -> Reservation:
    """So many bytes, once there is room for them and for all who came before."""
    budget = broker.recompressed
    async with broker.room:
        while not budget.try_take(size):
            room = asyncio.get_running_loop().create_future()
            arrival = budget.wait(partial(_wake, room), size)
            try:
                await room
            finally:
                budget.forget(arrival)
    return Reservation(budget, size)


def _wake(waiting: "asyncio.Future[None]") -> None:
    if not waiting.done():
        waiting.set_result(None)
