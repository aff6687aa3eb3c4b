"""DescribeLogDirs: how large what is kept here is.

Behavior: one directory, the data directory. A partition's size is what its segments
and its table hold of it; there are no future replicas. Where tables lie in a warehouse
of their own that is a second directory: it has the sizes of the tables, of partitions
that have one, and the data directory those of the segments, so that each size is of
the disk that it takes; and so is each further warehouse, with the tables of its topics.
A warehouse that is not there has KAFKA_STORAGE_ERROR, as a directory that is offline
has in Kafka.
Version notes: v3 a top-level error; v4 the size of the volume (KIP-827); v5 cordoned
directories (KIP-1066): never.
"""

import shutil
from collections.abc import Awaitable, Callable, Iterable
from copy import copy
from pathlib import Path
from typing import Final

from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.dispatch.turns import (
    ITEMS_A_TURN,
    Steps,
    WhileHeard,
    completed,
    in_turns,
)
from broker.ids import PartitionNumber
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
from lakehouse import further
from lakehouse.location import warehouse_of
from lakehouse.warehouse_names import name_of

_LOG: Final = "/"
"""No warehouse is called so."""
Size = Callable[[Topic, PartitionNumber], int]


@serves(ApiKey.DESCRIBE_LOG_DIRS, versions=(0, 5))
def describe_log_dirs(
    request: DescribeLogDirsRequest, context: Context
) -> DescribeLogDirsResponse | Awaitable[DescribeLogDirsResponse]:
    broker = context.broker
    tables = broker.settings.data_dir / "tables"
    if tables.is_symlink() or further.names(str(tables)):
        return WhileHeard(_several_directories(request, broker))
    return in_turns(_one_directory(request, broker))


def _one_directory(
    request: DescribeLogDirsRequest, broker: Broker
) -> Steps[DescribeLogDirsResponse]:
    result = _volume(broker.settings.data_dir)
    log, table = _sizes(broker)
    result.topics = yield from _topics(
        request, broker, lambda topic, index: log(topic, index) + table(topic, index)
    )
    return DescribeLogDirsResponse(results=[result])


async def _several_directories(
    request: DescribeLogDirsRequest, broker: Broker
) -> DescribeLogDirsResponse:
    """A disk that hangs holds up these answers alone, and one thread."""
    data_dir = broker.settings.data_dir
    found = await broker.disks.result(lambda: _places(data_dir))
    log_bytes, table_bytes = _sizes(broker)
    places = {name: copy(place) for name, place in found.items()}

    def beside(topic: Topic, index: PartitionNumber) -> int:
        """In the data directory, where nothing else has the topic's table."""
        is_elsewhere = name_of(topic.configs) in places
        size = 0 if is_elsewhere else table_bytes(topic, index)
        return log_bytes(topic, index) + size

    results = [places.pop(_LOG)]
    results[0].topics = await completed(_topics(request, broker, beside))
    for name, place in places.items():
        if not place.error_code:

            def inside(topic: Topic, index: PartitionNumber, name: str = name) -> int:
                is_there = name_of(topic.configs) == name
                return table_bytes(topic, index) if is_there else 0

            steps = _topics(request, broker, inside, empty_too=False)
            place.topics = await completed(steps)
        results.append(place)
    return DescribeLogDirsResponse(results=results)


def _sizes(broker: Broker) -> tuple[Size, Size]:
    """Of a partition: what its segments and what its table hold of it."""
    found = broker.partitions
    return (
        lambda topic, index: found.log_bytes(*topic.key(index)),
        lambda topic, index: found.table_bytes(*topic.key(index)),
    )


def _places(data_dir: Path) -> dict[str, DescribeLogDirsResult]:
    """The data directory's, and by their names those of warehouses: that where all
    other tables lie has none, and is told only where it is a place of its own."""
    tables = data_dir / "tables"
    found = {_LOG: _volume(data_dir)}
    if tables.is_symlink():
        found[""] = _volume(warehouse_of(data_dir))
    for name in further.names(str(tables)):
        place = Path(further.link_of(str(tables), name)).resolve()
        is_there = further.why_not(str(tables), name) is None
        found[name] = _volume(place) if is_there else _offline(place)
    return found


def _volume(directory: Path) -> DescribeLogDirsResult:
    """Of a directory, without what is in it."""
    try:
        found = shutil.disk_usage(directory)
    except OSError:
        return _offline(directory)
    return DescribeLogDirsResult(
        log_dir=str(directory), total_bytes=found.total, usable_bytes=found.free
    )


def _offline(directory: Path) -> DescribeLogDirsResult:
    return DescribeLogDirsResult(ErrorCode.KAFKA_STORAGE_ERROR, str(directory))


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
            size_bytes = size(topic, PartitionNumber(index))
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
