"""OffsetFetch: where a group stands, read.

Behavior: only what is durable. A partition nobody committed has offset -1 and no error;
never 0, or a consumer would read all again. What is named again is not told again: an
answer is no larger than what was committed.
Version notes: v0 UNKNOWN_TOPIC_OR_PARTITION where nobody committed; v1 none then; v2
null topics mean all the group has, and an error on top; v5 leader epoch (KIP-320); v7
require_stable (KIP-447): UNSTABLE_OFFSET_COMMIT for what an open transaction may
change, were it not committed yet (unless all are asked for, as in Kafka); v8 many
groups (KIP-709); v9 member epochs of the new groups (KIP-848), not looked at for
classic ones; v10 topic ids, UNKNOWN_TOPIC_ID for one that is not known.
"""

from collections.abc import Awaitable, Container, Hashable, Iterable, Iterator, Mapping
from itertools import chain
from typing import NamedTuple

from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.dispatch.turns import (
    COUNTED_A_TURN,
    ITEMS_A_TURN,
    Steps,
    drained,
    emptied_in_turns,
    in_turns,
)
from broker.groups.offsets import Committed
from broker.ids import PartitionNumber, TopicNumber, TopicPartition
from broker.protocol.api_keys import ApiKey
from broker.protocol.errors import ErrorCode
from broker.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from broker.runtime.services import Broker
from broker.topics.topic import Topic

_NEVER = Committed(offset=-1)
_UNSTABLE = Committed(offset=-1, metadata="")
"""Known by what it is, not by what is in it."""
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
Answered = set[tuple[Hashable, ...]]
"""The groups, and the partitions of topics of groups, that an answer tells of."""


class _Unstable:
    """What open transactions may change of the groups of one request.

    Each group is looked at once, however often it is named: it may be very much.
    """

    def __init__(self, broker: Broker, *, is_asked: bool) -> None:
        self._broker = broker
        self._is_asked = is_asked
        self._of: dict[str, set[TopicPartition]] = {}
        self._counted = 0

    def of(self, group_id: str) -> Steps[Container[TopicPartition]]:
        """Return the partitions of a group; yields after many."""
        if not self._is_asked:
            return ()
        found = self._of.get(group_id)
        if found is not None:
            return found
        found = self._of[group_id] = set()
        for keys in self._broker.groups.offsets.unstable(group_id):
            found.update(keys)
            self._counted += len(keys)
            if self._counted >= COUNTED_A_TURN:
                self._counted = 0
                yield
        return found


class _Found(NamedTuple):
    """The offset of one partition."""

    partition: int
    committed: Committed
    code: ErrorCode = ErrorCode.NONE


class _Offsets(NamedTuple):
    """What a group has committed, where it is not told that this may change."""

    committed: Mapping[TopicPartition, Committed]
    unstable: Container[TopicPartition]

    def get(self, key: TopicPartition) -> Committed | None:
        return _UNSTABLE if key in self.unstable else self.committed.get(key)


@serves(ApiKey.OFFSET_FETCH, versions=(0, 10))
def offset_fetch(
    request: OffsetFetchRequest, context: Context
) -> OffsetFetchResponse | Awaitable[OffsetFetchResponse]:
    return in_turns(_fetch(request, context))


def _fetch(request: OffsetFetchRequest, context: Context) -> Steps[OffsetFetchResponse]:
    answered: Answered = set()
    unstable = _Unstable(context.broker, is_asked=request.require_stable)
    if context.version >= 8:
        groups: list[OffsetFetchResponseGroup] = []
        for count, group in enumerate(request.groups, 1):
            one = yield from _group(group, unstable, answered, context)
            groups.append(one)
            if count % ITEMS_A_TURN == 0:
                yield
        yield from emptied_in_turns(answered)
        return OffsetFetchResponse(groups=groups)
    broker = context.broker
    offsets = yield from _offsets(request.group_id, unstable, broker)
    never = UNKNOWN if context.version == 0 else ErrorCode.NONE
    if request.topics is None:
        rows: Iterable[tuple[str, Iterable[_Found | None]]]
        every = yield from _all(offsets, broker)
        rows = ((topic.name, found) for topic, found in every)
    else:
        rows = (
            (asked.name, _new(_some(offsets, topic, indexes), answered, asked.name))
            for asked in request.topics
            for topic in [broker.topics.get(asked.name)]
            for indexes in [asked.partition_indexes]
        )
    topics, work = [], 0
    for name, found in rows:
        answers: list[OffsetFetchResponsePartition] = []
        topics.append(OffsetFetchResponseTopic(name, answers))
        for one_found in chain((None,), found):  # a topic takes time as well
            work += 1
            if work % ITEMS_A_TURN == 0:
                yield
            if one_found is None:
                continue
            answer = OffsetFetchResponsePartition(*_fields(one_found))
            if answer.committed_offset == _NEVER.offset:
                answer.error_code = answer.error_code or never
            answers.append(answer)
    yield from emptied_in_turns(answered)
    return OffsetFetchResponse(topics=topics)


def _offsets(group_id: str, unstable: _Unstable, broker: Broker) -> Steps[_Offsets]:
    may_change = yield from unstable.of(group_id)
    return _Offsets(broker.groups.fetch(group_id), may_change)


def _group(
    asked: OffsetFetchRequestGroup,
    unstable: _Unstable,
    answered: Answered,
    context: Context,
) -> Steps[OffsetFetchResponseGroup]:
    topics, work, broker = [], 0, context.broker
    offsets = yield from _offsets(asked.group_id, unstable, broker)
    rows = _rows(asked, offsets, answered, context)
    if asked.topics is None and (asked.group_id,) not in answered:
        answered.add((asked.group_id,))
        every = yield from _all(offsets, broker)
        rows = ((topic.name, topic.id, found) for topic, found in every)
    for name, topic_id, found in rows:
        answers: list[OffsetFetchResponsePartitions] = []
        topics.append(OffsetFetchResponseTopics(name, topic_id, answers))
        for one in chain((None,), found):
            if one is not None:
                answers.append(OffsetFetchResponsePartitions(*_fields(one)))
            work += 1
            if work % ITEMS_A_TURN == 0:
                yield
    return OffsetFetchResponseGroup(asked.group_id, topics)


def _rows(
    asked: OffsetFetchRequestGroup,
    offsets: _Offsets,
    answered: Answered,
    context: Context,
) -> Iterator[tuple[str, bytes, Iterable[_Found | None]]]:
    """Name, id and what was found of each topic, looked up as it is asked for."""
    broker = context.broker
    for topic in asked.topics or ():
        indexes = topic.partition_indexes
        if context.version >= 10:
            found = _by_id(offsets, broker, topic.topic_id, indexes)
        else:
            found = _some(offsets, broker.topics.get(topic.name), indexes)
        name_or_id = topic.topic_id if context.version >= 10 else topic.name
        new = _new(found, answered, asked.group_id, name_or_id)
        yield topic.name, topic.topic_id, new


def _new(
    found: Iterable[_Found], answered: Answered, *of: Hashable
) -> Iterator[_Found | None]:
    """What was found; None for each partition that is told already."""
    for one in found:
        key = (*of, one.partition)
        yield None if key in answered else one
        answered.add(key)


def _all(
    offsets: _Offsets, broker: Broker
) -> Steps[Iterator[tuple[Topic, Iterator[_Found]]]]:
    """Everything the group has, of topics that exist; each is looked up as it comes."""
    known: dict[TopicNumber, tuple[Topic, list[PartitionNumber]]] = {}
    for count, (number, index) in enumerate(tuple(offsets.committed), 1):
        topic = broker.topics.by_number(number)
        if topic is not None:
            known.setdefault(number, (topic, []))[1].append(index)
        if count % COUNTED_A_TURN == 0:
            yield
    return ((topic, _there(offsets, topic, them)) for topic, them in drained(known))


def _there(
    offsets: _Offsets, topic: Topic, indexes: Iterable[PartitionNumber]
) -> Iterator[_Found]:
    """Those that are still there when they are looked at."""
    for index in indexes:
        committed = offsets.get(topic.key(index))
        if committed is not None:
            yield _Found(index, committed)


def _some(
    offsets: _Offsets, topic: Topic | None, indexes: Iterable[int]
) -> Iterator[_Found]:
    if topic is None:
        return (_Found(index, _NEVER) for index in indexes)
    return (_Found(i, offsets.get(topic.key(i)) or _NEVER) for i in indexes)


def _by_id(
    offsets: _Offsets, broker: Broker, topic_id: bytes, indexes: Iterable[int]
) -> Iterator[_Found]:
    topic = broker.topics.by_id(topic_id)
    if topic is None:
        unknown = ErrorCode.UNKNOWN_TOPIC_ID
        return (_Found(index, _NEVER, unknown) for index in indexes)
    return _some(offsets, topic, indexes)


def _fields(found: _Found) -> tuple[int, int, int, str, int]:
    partition, committed, code = found
    if committed is _UNSTABLE:
        code = ErrorCode.UNSTABLE_OFFSET_COMMIT
    return (
        partition,
        committed.offset,
        committed.leader_epoch,
        committed.metadata,
        code,
    )
