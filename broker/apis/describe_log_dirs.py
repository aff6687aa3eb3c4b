"""DescribeLogDirs: how large what is kept here is.

Behavior: one directory, the data directory. A partition's size is what its segments
and its table hold of it; there are no future replicas. Where tables lie in a warehouse
of their own that is a second directory: it has the sizes of the tables, of partitions
that have one, and the data directory those of the segments, so that each size is of
the disk that it takes. A warehouse that is not there has KAFKA_STORAGE_ERROR, as a
directory that is offline has in Kafka.
Version notes: v3 a top-level error; v4 the size of the volume (KIP-827); v5 cordoned
directories (KIP-1066): never.
"""

import shutil
from collections.abc import Awaitable, Callable, Iterable
from copy import copy
from pathlib import Path

from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.dispatch.turns import ITEMS_A_TURN, Steps, completed, in_turns
from broker.ids import PartitionNumber, TopicNumber
from broker.protocol.api_keys import ApiKey
from broker.protocol.errors import ErrorCode
from broker.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from broker.runtime.services import Broker
from broker.topics.topic import Topic
from lakehouse.location import warehouse_of

Size = Callable[[TopicNumber, PartitionNumber], int]


@serves(ApiKey.DESCRIBE_LOG_DIRS, versions=(0, 5))
def describe_log_dirs(
    request: DescribeLogDirsRequest, context: Context
) -> DescribeLogDirsResponse | Awaitable[DescribeLogDirsResponse]:
    broker = context.broker
    if (broker.settings.data_dir / "tables").is_symlink():
        return _two_directories(request, broker)
    return in_turns(_one_directory(request, broker))


def _one_directory(
    request: DescribeLogDirsRequest, broker: Broker
) -> Steps[DescribeLogDirsResponse]:
    partitions = broker.partitions

    def size(number: TopicNumber, index: PartitionNumber) -> int:
        return partitions.log_bytes(number, index) + partitions.table_bytes(
            number, index
        )

    result = _volume(broker.settings.data_dir)
    result.topics = yield from _topics(request, broker, size)
    return DescribeLogDirsResponse(results=[result])


async def _two_directories(
    request: DescribeLogDirsRequest, broker: Broker
) -> DescribeLogDirsResponse:
    """A disk that hangs holds up these answers alone, and one thread."""
    partitions, data_dir = broker.partitions, broker.settings.data_dir
    found = await broker.disks.result(
        lambda: (_volume(data_dir), _volume(warehouse_of(data_dir)))
    )
    log, tables = map(copy, found)
    log.topics = await completed(_topics(request, broker, partitions.log_bytes))
    if not tables.error_code:
        steps = _topics(request, broker, partitions.table_bytes, empty_too=False)
        tables.topics = await completed(steps)
    return DescribeLogDirsResponse(results=[log, tables])


def _volume(directory: Path) -> DescribeLogDirsResult:
    """Of a directory, without what is in it."""
    try:
        found = shutil.disk_usage(directory)
    except OSError:
        return DescribeLogDirsResult(ErrorCode.KAFKA_STORAGE_ERROR, str(directory))
    return DescribeLogDirsResult(
        log_dir=str(directory), total_bytes=found.total, usable_bytes=found.free
    )


def _topics(
    request: DescribeLogDirsRequest,
    broker: Broker,
    size: Size,
    *,
    empty_too: bool = True,
) -> Steps[list[DescribeLogDirsTopic]]:
    topics: list[DescribeLogDirsTopic] = []
    looked_at = 0
    for topic, indexes in _asked(request, broker):
        partitions: list[DescribeLogDirsPartition] = []
        for index in indexes:
            size_bytes = size(*topic.key(index))
            if size_bytes or empty_too:
                partitions.append(DescribeLogDirsPartition(index, size_bytes))
            looked_at += 1
            if looked_at % ITEMS_A_TURN == 0:
                yield
        if partitions:
            topics.append(DescribeLogDirsTopic(topic.name, partitions))
    return topics


def _asked(
    request: DescribeLogDirsRequest, broker: Broker
) -> Iterable[tuple[Topic, Iterable[int]]]:
    """The topics asked for that are here, with partitions; null asks for all."""
    if request.topics is None:
        for topic in broker.topics.all():
            yield topic, range(topic.partitions)
        return
    for asked in request.topics:
        known = broker.topics.get(asked.topic)
        if known is None:
            continue
        there = [i for i in asked.partitions if 0 <= i < known.partitions]
        if there:
            yield known, dict.fromkeys(there)
