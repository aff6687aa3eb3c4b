"""ListOffsets: the offset at an end of the log, or at a time.

Behavior: -1 the high watermark (the last stable offset for read_committed, which finds
nothing behind it by time either; of a level that is none, 2 say, everything is
UNKNOWN_SERVER_ERROR), -2 the log
start, -3 the record with the greatest timestamp, -4 the log start again (nothing is
tiered), -5 and -6 nothing; a timestamp finds the first record stamped so or later, and
is answered with that record's own timestamp, in segments and tables alike. A partition
that is named twice is refused, once.
Version notes: v0 (before KIP-79) gives a list, newest first, of at most
``max_num_offsets``: where segments begin, in Kafka; what an end or a time stands for
and the log start, here, where partitions have no segments of their own. Where nothing
is known to be as young as a time that has passed, it stands for the offset behind the
latest time there is: messages of magic 0 have no time, and are not passed over; v3
KAFKA_STORAGE_ERROR, NOT_LEADER_OR_FOLLOWER before; v4 leader epochs; v7 -3, v8 -4, v9
-5, v11 -6, each UNSUPPORTED_VERSION before (``ReplicaManager.fetchOffset``); v10 a
timeout for remote storage: none is here.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from functools import partial

from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.dispatch.turns import ITEMS_A_TURN, Steps, counted_in_turns, in_turns
from broker.protocol.api_keys import ApiKey
from broker.protocol.errors import ErrorCode, KafkaError, storage_error_since
from broker.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from broker.records.batch import NO_TIMESTAMP
from broker.runtime.partitions.partition import (
    LEADER_EPOCH,
    Partition,
    check_leader_epoch,
)
from broker.runtime.services import Broker

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL = -1, -2, -3, -4
LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -5, -6
SINCE_VERSION = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
READ_COMMITTED = 1
ISOLATION_LEVELS = (0, READ_COMMITTED)
STORAGE_ERROR_SINCE = 3
SEARCHES_MAX = 200
"""Of one request side by side: each is a task, which takes a moment to begin."""
Search = Callable[[], Awaitable[None]]
"""Begins when it is called: who hangs up before that leaves nothing behind."""


@serves(ApiKey.LIST_OFFSETS, versions=(0, 11))
def list_offsets(
    request: ListOffsetsRequest, context: Context
) -> ListOffsetsResponse | Awaitable[ListOffsetsResponse]:
    return in_turns(_listed(request, context))


def _listed(
    request: ListOffsetsRequest, context: Context
) -> Steps[ListOffsetsResponse | Awaitable[ListOffsetsResponse]]:
    response = ListOffsetsResponse()
    searches: list[Search] = []
    looked_at = 0
    look = _look_old if context.version == 0 else _look
    asked_times = yield from counted_in_turns(_names(request))
    for topic in request.topics:
        answers: list[ListOffsetsPartitionResponse] = []
        for asked in (None, *topic.partitions):
            looked_at += 1
            if looked_at % ITEMS_A_TURN == 0:
                yield
            if asked is None:
                continue
            times = asked_times.pop((topic.name, asked.partition_index), 0)
            if not times:
                continue  # it was refused where it was named first
            answer = ListOffsetsPartitionResponse(asked.partition_index)
            answers.append(answer)
            if times > 1:
                answer.error_code = ErrorCode.INVALID_REQUEST
                continue
            try:
                search = look(topic.name, asked, answer, request, context)
            except KafkaError as error:
                answer.error_code = error.code
                continue
            if search is not None:
                searches.append(partial(_searched, search, answer, context.version))
        if answers:
            response.topics.append(ListOffsetsTopicResponse(topic.name, answers))
    return _after(searches, response) if searches else response


def _names(request: ListOffsetsRequest) -> Iterator[tuple[str, int] | None]:
    """The partitions that are named; None for each topic, which takes time as well."""
    for topic in request.topics:
        yield None
        for asked in topic.partitions:
            yield topic.name, asked.partition_index


async def _searched(
    search: Search, answer: ListOffsetsPartitionResponse, version: int
) -> None:
    """Search; a failure is reported in a code that the client's version knows."""
    try:
        await search()
    except KafkaError as error:
        code = storage_error_since(STORAGE_ERROR_SINCE, error.code, version)
        answer.error_code = code


async def _after(
    searches: list[Search], response: ListOffsetsResponse
) -> ListOffsetsResponse:
    for first in range(0, len(searches), SEARCHES_MAX):
        some = searches[first : first + SEARCHES_MAX]
        await asyncio.gather(*(search() for search in some))
    return response


def _look(
    name: str,
    asked: ListOffsetsPartition,
    answer: ListOffsetsPartitionResponse,
    request: ListOffsetsRequest,
    context: Context,
) -> Search | None:
    """Fill the answer, or return the search that will."""
    broker, timestamp = context.broker, asked.timestamp
    if request.isolation_level not in ISOLATION_LEVELS:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "no such isolation level")
    if timestamp < 0 and SINCE_VERSION.get(timestamp, 99) > context.version:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"timestamp {timestamp}")
    partition = broker.partitions.named(name, asked.partition_index)
    committed = request.isolation_level == READ_COMMITTED
    check_leader_epoch(asked.current_leader_epoch)
    if timestamp >= 0 or timestamp == MAX_TIMESTAMP:
        return partial(
            _search, partition, timestamp, answer, broker, committed=committed
        )
    offset = _end(partition, timestamp, committed=committed)
    if offset is not None:
        answer.offset, answer.leader_epoch = offset, LEADER_EPOCH
    return None


def _look_old(
    name: str,
    asked: ListOffsetsPartition,
    answer: ListOffsetsPartitionResponse,
    request: ListOffsetsRequest,
    context: Context,
) -> Search | None:
    """As `_look`, for version 0: all before which a client may ask."""
    partition = context.broker.partitions.named(name, asked.partition_index)
    if asked.timestamp not in (LATEST, EARLIEST) and asked.timestamp < 0:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"timestamp {asked.timestamp}")
    if asked.timestamp >= 0:
        return partial(_search_old, partition, asked, answer, context.broker)
    end = _end(partition, asked.timestamp, committed=False)
    assert end is not None
    answer.old_style_offsets = _newest_first(partition, end, asked.max_num_offsets)
    return None


async def _search_old(
    partition: Partition,
    asked: ListOffsetsPartition,
    answer: ListOffsetsPartitionResponse,
    broker: Broker,
) -> None:
    end = await _end_before(partition, asked.timestamp, broker)
    answer.old_style_offsets = _newest_first(partition, end, asked.max_num_offsets)


async def _end_before(partition: Partition, timestamp: int, broker: Broker) -> int:
    """Up to where everything is known to be from before a time."""
    times = broker.partitions.times
    if (found := await times.first_at(partition, timestamp)) is not None:
        return found.offset
    if timestamp >= broker.clock.now_ms():
        return partition.high_watermark
    latest = await times.latest(partition)
    if latest is None or latest.timestamp_ms == NO_TIMESTAMP:
        return partition.log_start
    return latest.offset + 1


def _newest_first(partition: Partition, end: int, count: int) -> list[int]:
    return sorted({end, partition.log_start}, reverse=True)[: max(count, 0)]


def _end(partition: Partition, timestamp: int, committed: bool) -> int | None:
    if timestamp == LATEST:
        return partition.end(committed=committed)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return partition.log_start
    return None


async def _search(
    partition: Partition,
    timestamp: int,
    answer: ListOffsetsPartitionResponse,
    broker: Broker,
    *,
    committed: bool,
) -> None:
    times = broker.partitions.times
    if timestamp == MAX_TIMESTAMP:
        found = await times.latest(partition)
    else:
        found = await times.first_at(partition, timestamp)
    if found is not None and found.offset < partition.end(committed=committed):
        answer.offset, answer.timestamp = found
        answer.leader_epoch = LEADER_EPOCH
