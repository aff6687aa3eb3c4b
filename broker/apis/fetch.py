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
one message (KIP-74); v4 batches; v5 log start; v7 sessions (KIP-227): see
``_fetch_sessions``; v9 the leader epoch fences (KIP-320); v12 the epoch fetched last;
v13 topics by id (KIP-516); v16 who leads (``_fetch_partitions``); v17 and v18 fields of
followers, which mean nothing of a consumer.
"""

from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from typing import Any, NamedTuple

from broker.apis._fetch_partitions import (
    BATCHES_SINCE,
    READ_COMMITTED,
    aborted_of,
    count_fetched,
    data_of,
    find_place,
    replica_id_of,
)
from broker.apis._fetch_sessions import (
    CLOSING_EPOCH,
    FULL_EPOCH,
    fetch_changes,
    open_session,
)
from broker.apis._message_sets import convert_fetched
from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.protocol.api_keys import ApiKey
from broker.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from broker.runtime.budget import Reservation
from broker.runtime.partitions.fetches import Fetch
from broker.runtime.partitions.reads import TURN_PLACES, Place
from broker.runtime.services import Broker

TURN_FORGOTTEN = 5_000


class _Asked(NamedTuple):
    """Where a partition stands in the request as it is answered, and its place."""

    partitions: list[FetchPartition]
    at: int
    place: int


@serves(ApiKey.FETCH, versions=(0, 18), is_bulky=True)
def fetch(
    request: FetchRequest, context: Context
) -> FetchResponse | Awaitable[FetchResponse]:
    broker, version = context.broker, context.version
    if request.session_epoch not in (CLOSING_EPOCH, FULL_EPOCH):
        return fetch_changes(request, version, broker)
    if request.session_id:
        broker.fetch_sessions.remove(request.session_id)
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
    ``TURN_PLACES``, and while it forgets more than ``TURN_FORGOTTEN``.

    Source: ``FetchRequest.fetchData``, a map in the order of insertion.
    """
    topics: list[FetchTopic] = []
    known: dict[tuple[str, bytes, int], _Asked] = {}
    replica_id = replica_id_of(request, version)
    for count, (topic, asked) in enumerate(_all_asked(request)):
        if count and count % TURN_PLACES == 0:
            yield
        if asked is None:
            continue
        place = Place(None, asked.fetch_offset, asked.partition_max_bytes)
        find_place(place, topic, asked, replica_id, version, broker)
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
    asked_for, request.topics = request.topics, topics
    yield from _forget(known, asked_for)


def _forget(
    known: dict[tuple[str, bytes, int], _Asked], topics: list[FetchTopic]
) -> Iterator[None]:
    """Empty both, but for the last ``TURN_FORGOTTEN``; yields in between. All of a
    hundred thousand at once would take 20 ms."""
    while max(len(known), len(topics)) > TURN_FORGOTTEN:
        del topics[-TURN_FORGOTTEN:]
        for _ in range(min(len(known), TURN_FORGOTTEN)):
            known.popitem()
        yield


def _all_asked(
    request: FetchRequest,
) -> Iterator[tuple[FetchTopic, FetchPartition | None]]:
    """Each partition that is named; None of a topic of which none is."""
    for topic in request.topics:
        for one in topic.partitions or (None,):
            yield topic, one


def _answer(
    request: FetchRequest, places: list[Place], version: int, broker: Broker
) -> Generator[None, None, FetchResponse]:
    """The response, and its session if one is wanted; yields after each
    ``TURN_PLACES`` partitions."""
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
            data = data_of(asked.partition, place, version, broker.node_id)
            data.aborted_transactions = aborted_of(place, committed)
            answers.append(data)
            if place.buffers:
                size += count_fetched(place)
            elif place.error is not None:
                broker.counters.fetch_errors += 1
            if count % TURN_PLACES == 0:
                yield
    broker.counters.bytes_out += size
    if request.session_epoch == FULL_EPOCH:
        yield from open_session(response, request, version, broker)
    return response
