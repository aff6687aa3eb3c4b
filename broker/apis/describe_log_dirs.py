"""DescribeLogDirs: how large what is kept here is.

Behavior: one directory, the data directory. A partition's size is what its segments
and its table hold of it; there are no future replicas.
Version notes: v3 a top-level error; v4 the size of the volume (KIP-827); v5 cordoned
directories (KIP-1066): never.
"""

import shutil
from collections.abc import Awaitable, Iterable

from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.dispatch.turns import ITEMS_A_TURN, Steps, in_turns
from broker.protocol.api_keys import ApiKey
from broker.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from broker.runtime.services import Broker
from broker.topics.topic import Topic


@serves(ApiKey.DESCRIBE_LOG_DIRS, versions=(0, 5))
def describe_log_dirs(
    request: DescribeLogDirsRequest, context: Context
) -> DescribeLogDirsResponse | Awaitable[DescribeLogDirsResponse]:
    return in_turns(_directory(request, context))


def _directory(
    request: DescribeLogDirsRequest, context: Context
) -> Steps[DescribeLogDirsResponse]:
    broker = context.broker
    directory = str(broker.settings.data_dir)
    volume = shutil.disk_usage(directory)
    topics: list[DescribeLogDirsTopic] = []
    looked_at = 0
    for topic, indexes in _asked(request, broker):
        partitions: list[DescribeLogDirsPartition] = []
        topics.append(DescribeLogDirsTopic(topic.name, partitions))
        for index in indexes:
            partitions.append(_described(topic, index, broker))
            looked_at += 1
            if looked_at % ITEMS_A_TURN == 0:
                yield
    return DescribeLogDirsResponse(
        results=[
            DescribeLogDirsResult(
                log_dir=directory,
                topics=topics,
                total_bytes=volume.total,
                usable_bytes=volume.free,
            )
        ]
    )


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


def _described(topic: Topic, index: int, broker: Broker) -> DescribeLogDirsPartition:
    return DescribeLogDirsPartition(
        partition_index=index,
        partition_size=broker.partitions.bytes_of(*topic.key(index)),
        offset_lag=0,
        is_future_key=False,
    )
