"""Fetch: batches out of partitions, now or when there are enough of them.

Behavior: answered at once if there is an error, if ``min_bytes`` are there, or if the
client will not wait; else parked until an append, a deletion or time completes it. The
first partition that has anything gives at least one whole batch; then the limits hold.
No fetch waits longer than a connection may be silent. What is in memory is sent as it
lies there; the rest is read on threads, into memory that all fetches have in common. A
partition that is named twice is fetched once, where it was named first, as it was named
last. A replica is refused: this node has no followers. With isolation level 1 nothing
is read from the first open transaction on, and what of the rest was aborted is told; of
what stands in a table nothing was.
Version notes: v0 and v1 get messages of magic 0, v2 and v3 of magic 1 (KIP-32), which
are made of the batches on threads; v3 limits the answer as a whole, and gives at least
one message (KIP-74); v4 batches; v5 log start; v7 sessions (KIP-227): a session id is
never given out (0), which every client takes for "go on without", and an epoch above 0
is refused; v9 the leader epoch fences (KIP-320); v12 the epoch fetched last; v13 topics
by id (KIP-516); v16 endpoints, v17 and v18 fields of followers: not needed by one node.
"""

from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from typing import Any, NamedTuple

from broker.apis._message_sets import (
    AT_LEAST_ONE_SINCE,
    convert_fetched,
    known_code,
)
from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.protocol.api_keys import ApiKey
from broker.protocol.errors import ErrorCode, KafkaError
from broker.protocol.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from broker.runtime.budget import Reservation
from broker.runtime.partitions.fetches import Fetch, check_offset
from broker.runtime.partitions.partition import (
    LEADER_EPOCH,
    Partition,
    bare,
    check_leader_epoch,
)
from broker.runtime.partitions.reads import TURN_PLACES, Place
from broker.runtime.services import Broker

BATCHES_SINCE = 4
BY_ID_SINCE = 13
STORAGE_ERROR_SINCE = 6
REPLICA_STATE_SINCE = 15
READ_COMMITTED = 1


class _Asked(NamedTuple):
    """Where a partition stands in the request as it is answered, and its place."""

    partitions: list[FetchPartition]
    at: int
    place: int


@serves(ApiKey.FETCH, versions=(0, 18))
def fetch(
    request: FetchRequest, context: Context
) -> FetchResponse | Awaitable[FetchResponse]:
    if request.session_epoch > 0:
        return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    broker, version = context.broker, context.version
    places: list[Place] = []
    bytes_max = min(request.max_bytes, broker.settings.broker.fetch_max_bytes)

    def convert(
        reservation: Reservation, is_heard: Callable[[], bool]
    ) -> Coroutine[Any, Any, int]:
        return convert_fetched(
            places, version, bytes_max, broker, reservation, is_heard
        )

    operation = Fetch(
        places,
        broker.partitions.reader,
        broker.fetched,
        min_bytes=request.min_bytes,
        bytes_max=bytes_max,
        count=sum(len(topic.partitions) or 1 for topic in request.topics),
        fill=lambda: _fill(request, places, version, broker),
        answer=lambda: _answer(request, places, version, broker),
        convert=None if version >= BATCHES_SINCE else convert,
    )
    request.forgotten_topics_data = []  # a fetch that waits retains its request
    longest_ms = broker.settings.network.idle_ms
    return operation.run(broker.purgatory, min(request.max_wait_ms, longest_ms))


def _fill(
    request: FetchRequest, places: list[Place], version: int, broker: Broker
) -> Generator[None, None, None]:
    """Find the places, and leave of the request what they are of; yields after each
    ``TURN_PLACES``.

    Source: ``FetchRequest.fetchData``, a map in the order of insertion.
    """
    topics: list[FetchTopic] = []
    known: dict[tuple[str, bytes, int], _Asked] = {}
    replica_id = _replica_id(request, version)
    for count, (topic, asked) in enumerate(_all_asked(request)):
        if count and count % TURN_PLACES == 0:
            yield
        if asked is None:
            continue
        place = _place(topic, asked, replica_id, version, broker)
        place.committed = request.isolation_level == READ_COMMITTED
        key = topic.topic, topic.topic_id, asked.partition
        before = known.get(key)
        if before is not None:
            before.partitions[before.at], places[before.place] = asked, place
            continue
        if not topics or (topics[-1].topic, topics[-1].topic_id) != key[:2]:
            topics.append(FetchTopic(topic.topic, topic.topic_id, []))
        partitions = topics[-1].partitions
        known[key] = _Asked(partitions, len(partitions), len(places))
        partitions.append(asked)
        places.append(place)
    request.topics = topics


def _all_asked(
    request: FetchRequest,
) -> Iterator[tuple[FetchTopic, FetchPartition | None]]:
    """Each partition that is named; None of a topic of which none is."""
    for topic in request.topics:
        for one in topic.partitions or (None,):
            yield topic, one


def _replica_id(request: FetchRequest, version: int) -> int:
    """Who asks; -1: a consumer."""
    if version < REPLICA_STATE_SINCE:
        return request.replica_id
    return -1 if request.replica_state is None else request.replica_state.replica_id


def _place(
    topic: FetchTopic,
    asked: FetchPartition,
    replica_id: int,
    version: int,
    broker: Broker,
) -> Place:
    place = Place(None, asked.fetch_offset, asked.partition_max_bytes)
    place.at_least_one = version < AT_LEAST_ONE_SINCE  # it is cut to the limit after
    try:
        if version >= BY_ID_SINCE:
            found = broker.partitions.identified(topic.topic_id, asked.partition)
        else:
            found = broker.partitions.named(topic.topic, asked.partition)
        place.partition = found
        check_leader_epoch(asked.current_leader_epoch)
        _check_consumer(replica_id, asked)
        _check_last_fetched(asked)
        check_offset(found, asked.fetch_offset)
    except KafkaError as error:
        place.error = bare(error)
    return place


def _check_consumer(replica_id: int, asked: FetchPartition) -> None:
    """No replica follows this node (``Partition.followerReplicaOrThrow``)."""
    if replica_id < 0:
        return
    knows_epoch = asked.current_leader_epoch >= 0
    raise KafkaError(
        ErrorCode.UNKNOWN_LEADER_EPOCH
        if knows_epoch
        else ErrorCode.NOT_LEADER_OR_FOLLOWER,
        f"{replica_id} is none of the replicas",
    )


def _check_last_fetched(asked: FetchPartition) -> None:
    """An epoch that never was cannot have been fetched (``UnifiedLog.read``)."""
    if asked.last_fetched_epoch > LEADER_EPOCH:
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"epoch {asked.last_fetched_epoch} is unknown here",
        )


def _answer(
    request: FetchRequest, places: list[Place], version: int, broker: Broker
) -> Generator[None, None, FetchResponse]:
    """The response; yields after each ``TURN_PLACES`` partitions."""
    response = FetchResponse()
    committed = request.isolation_level == READ_COMMITTED
    filled = iter(enumerate(places, 1))
    size = 0
    for topic in request.topics:
        answers: list[PartitionData] = []
        response.responses.append(
            FetchableTopicResponse(topic.topic, topic.topic_id, answers)
        )
        for asked in topic.partitions:
            count, place = next(filled)
            data = _data(asked.partition, place, version)
            data.aborted_transactions = _aborted(place, committed)
            answers.append(data)
            if place.buffers:
                size += place.size
            if count % TURN_PLACES == 0:
                yield
    broker.counters.bytes_out += size
    return response


def _aborted(place: Place, committed: bool) -> list[AbortedTransaction] | None:
    """What does not count of what was read, by first offset. Kafka says so to who reads
    what is committed, and of what is not here; others get null."""
    if not committed and place.partition is not None:
        return None
    if place.error is not None:
        return []
    return [AbortedTransaction(*one) for one in place.aborted]


def _data(index: int, place: Place, version: int) -> PartitionData:
    """A partition's part; with an error all its offsets are -1, as Kafka's."""
    data = PartitionData(index, high_watermark=-1, records=b"")
    if place.error is not None:
        data.error_code = _code(place.error, version, place.partition)
        return data
    if place.partition is not None and not place.partition.deleted:
        offsets = place.partition.log.offsets
        data.high_watermark = offsets.durable
        data.last_stable_offset = offsets.stable
        data.log_start_offset = offsets.start
    if place.buffers:
        data.records = place.buffers
    return data


def _code(error: KafkaError, version: int, partition: Partition | None) -> ErrorCode:
    """No code that is newer than the client's version (``FetchResponse.java``)."""
    if error.code is ErrorCode.KAFKA_STORAGE_ERROR and version < STORAGE_ERROR_SINCE:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if version >= BY_ID_SINCE and partition is not None and partition.deleted:
        return ErrorCode.UNKNOWN_TOPIC_ID
    return known_code(error.code) if version < BATCHES_SINCE else error.code
