"""Fetches of a session (KIP-227): what a request changes, and what has changed.

Behavior: a full fetch (epoch 0) gets a session if there is room for one. An incremental
one (epoch 1 and up) names the partitions that are new or that it wants otherwise, and
those that it forgets; it is answered as if it had named all of the session, without
those of which nothing is new. A session that has nothing left ends. Whoever comes with
the right id and epoch is served, on any connection; a fetch that waits hears
INVALID_FETCH_SESSION_EPOCH when the next one of its session comes.

Where Kafka 4.3.1 differs: that fetch hears it when its time is over; sessions are
not limited in bytes, so none that grows is lost; errors of metadata come behind all
else, here in the order of the session.

Sources: ``FetchManager.newContext``, ``FetchSession``.
"""

from collections.abc import Awaitable, Generator
from typing import Final

from broker.apis._fetch_partitions import (
    BY_ID_SINCE,
    READ_COMMITTED,
    aborted_of,
    count_fetched,
    data_of,
    find_place,
    replica_id_of,
)
from broker.fetching.session import FetchSession, SessionPartition
from broker.protocol.errors import ErrorCode, KafkaError
from broker.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from broker.runtime.partitions.partition import Partition, bare
from broker.runtime.partitions.reads import TURN_PLACES
from broker.runtime.partitions.session_fetches import SessionFetch, SessionPlace
from broker.runtime.services import Broker

FULL_EPOCH: Final = 0
CLOSING_EPOCH: Final = -1


def fetch_changes(
    request: FetchRequest, version: int, broker: Broker
) -> FetchResponse | Awaitable[FetchResponse]:
    """Answer an incremental fetch."""
    sessions = broker.fetch_sessions
    try:
        session = sessions.begin(
            request.session_id, request.session_epoch, by_id=version >= BY_ID_SINCE
        )
    except KafkaError as error:
        return FetchResponse(error_code=error.code)
    changes = _Changes(session, request, version, broker)
    operation = SessionFetch(
        session,
        changes.places,
        broker.partitions.reader,
        broker.fetched,
        min_bytes=request.min_bytes,
        bytes_max=min(request.max_bytes, broker.settings.broker.fetch_max_bytes),
        count=changes.count_max,
        fill=changes.fill,
        answer=changes.answer,
        place_of=changes.place_of,
    )
    longest_ms = broker.settings.network.idle_ms
    result = operation.run(broker.purgatory, min(request.max_wait_ms, longest_ms))
    if not isinstance(result, FetchResponse):
        sessions.awaits(session, result)
    return result


class _Changes:
    """One incremental fetch: it changes its session, and makes the answer."""

    def __init__(
        self, session: FetchSession, request: FetchRequest, version: int, broker: Broker
    ) -> None:
        self.places: list[SessionPlace] = []
        self._session = session
        self._epoch = session.epoch
        self._request = request
        self._version = version
        self._broker = broker
        self._replica_id = replica_id_of(request, version)
        self._committed = request.isolation_level == READ_COMMITTED
        self._refusal: ErrorCode | None = None

    @property
    def count_max(self) -> int:
        """So many partitions are looked at, at most."""
        request = self._request
        named = sum(len(topic.partitions) or 1 for topic in request.topics)
        forgotten = request.forgotten_topics_data
        left_out = sum(len(topic.partitions) or 1 for topic in forgotten)
        return 2 * named + left_out + self._session.due_count

    def fill(self) -> Generator[None, None, None]:
        """Change the session, and find the places that are due; yields after each
        ``TURN_PLACES``."""
        count = yield from self._change()
        is_empty = not len(self._session)
        if not self._broker.fetch_sessions.used(self._session):
            if not is_empty:  # that is how one ends
                self._refusal = ErrorCode.FETCH_SESSION_ID_NOT_FOUND
            return
        for partition in self._session.due():
            if count and count % TURN_PLACES == 0:
                yield
            count += 1
            place = self.place_of(partition)
            if not self._is_quiet(place):
                self.places.append(place)

    def _change(self) -> Generator[None, None, int]:
        """What is named, then what is forgotten; so many there were. What is too much
        is not kept until all of it is there."""
        request, session, count = self._request, self._session, 0
        sessions = self._broker.fetch_sessions
        for topic in request.topics:
            for asked in topic.partitions or (None,):
                if count and count % TURN_PLACES == 0:
                    yield
                count += 1
                if asked is not None and sessions.may_grow(session):
                    session.update(topic.topic, topic.topic_id, asked)
        for left_out in request.forgotten_topics_data:
            for index in left_out.partitions or (None,):
                if count and count % TURN_PLACES == 0:
                    yield
                count += 1
                if index is not None:
                    session.forget(left_out.topic, left_out.topic_id, index)
        request.topics, request.forgotten_topics_data = [], []
        return count

    def place_of(self, partition: SessionPartition) -> SessionPlace:
        """Where the client reads in a partition that is due."""
        place, asked = SessionPlace(partition), partition.asked
        place.committed = self._committed
        broker = self._broker
        find_place(place, partition, asked, self._replica_id, self._version, broker)
        if self._session.by_id:
            self._go_by_name(place)
        return place

    def _is_quiet(self, place: SessionPlace) -> bool:
        """Whether the client knows all of a partition; it rests then."""
        of, partition = place.of, place.partition
        if place.error is not None or partition is None:
            return False
        known, now = (of.high_watermark, of.log_start), partition.log.offsets
        if known != (now.durable, now.start) or not _is_at_end(of, partition):
            return False
        self._session.rest(of, partition)
        return True

    def _go_by_name(self, place: SessionPlace) -> None:
        """Of a topic that had a name in this session Kafka says what became of that."""
        partition, topics = place.of, self._broker.topics
        if place.error is None or place.error.code != ErrorCode.UNKNOWN_TOPIC_ID:
            if not partition.topic and place.partition is not None:
                partition.topic = topics.identified(partition.topic_id).name
        elif partition.topic:
            code = ErrorCode.INCONSISTENT_TOPIC_ID
            if topics.get(partition.topic) is None:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            place.error = bare(KafkaError(code))

    def answer(self) -> Generator[None, None, FetchResponse]:
        """The response; yields after each ``TURN_PLACES`` partitions."""
        session = self._session
        if self._refusal is not None:
            return FetchResponse(error_code=self._refusal)
        response = FetchResponse(session_id=0 if session.is_closed else session.id)
        for count, place in enumerate(self.places):
            if count and count % TURN_PLACES == 0:
                yield
            if session.epoch != self._epoch:
                break
            data = self._data(place)
            if data is not None:
                _add(response, place.of, data)
                counters = self._broker.counters
                counters.bytes_out += count_fetched(place)
                counters.fetch_errors += place.error is not None
        if session.epoch != self._epoch:
            code = ErrorCode.INVALID_FETCH_SESSION_EPOCH
            return FetchResponse(error_code=code, session_id=session.id)
        return response

    def _data(self, place: SessionPlace) -> PartitionData | None:
        """What the client is to know of a partition; None: nothing new. It rests then,
        or after this, unless there is more."""
        of, version = place.of, self._version
        data = data_of(of.asked.partition, place, version, self._broker.node_id)
        data.aborted_transactions = aborted_of(place, self._committed)
        is_new = self._session.answer(
            of,
            high_watermark=data.high_watermark,
            log_start=data.log_start_offset,
            has_records=bool(place.buffers),
            has_error=place.error is not None,
        )
        partition = place.partition
        if place.error is None and partition is not None and _is_at_end(of, partition):
            self._session.rest(of, partition)
        return data if is_new else None


def _is_at_end(of: SessionPartition, partition: Partition) -> bool:
    """Whether nothing at all is behind the client, committed or not. A place above what
    is durable may still turn out to be no place."""
    is_last = of.asked.fetch_offset == partition.high_watermark
    return is_last and not partition.deleted


def _add(response: FetchResponse, of: SessionPartition, data: PartitionData) -> None:
    topics = response.responses
    if not topics or (topics[-1].topic, topics[-1].topic_id) != (of.topic, of.topic_id):
        topics.append(FetchableTopicResponse(of.topic, of.topic_id, []))
    topics[-1].partitions.append(data)


def open_session(
    response: FetchResponse, request: FetchRequest, version: int, broker: Broker
) -> Generator[None, None, None]:
    """Give a full fetch its session, if there is room, with all that it was answered;
    yields after each ``TURN_PLACES`` partitions."""
    sessions = broker.fetch_sessions
    size = sum(len(topic.partitions) for topic in request.topics)
    if not sessions.has_room(size):
        return
    session, count = FetchSession(by_id=version >= BY_ID_SINCE), 0
    for topic, answered in zip(request.topics, response.responses, strict=True):
        name = topic.topic
        if session.by_id:
            known = broker.topics.by_id(topic.topic_id)
            name = "" if known is None else known.name
        for asked, data in zip(topic.partitions, answered.partitions, strict=True):
            if count and count % TURN_PLACES == 0:
                yield
            count += 1
            one = session.update(name, topic.topic_id, asked)
            session.answer(
                one,
                high_watermark=data.high_watermark,
                log_start=data.log_start_offset,
                has_error=data.error_code != ErrorCode.NONE,
            )
    response.session_id = sessions.open(session)
