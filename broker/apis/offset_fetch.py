"""OffsetFetch: where a group stands, read.

Behavior: only what is durable. A partition nobody committed has offset -1 and no error;
never 0, or a consumer would read all again.
Version notes: v1 an error per partition only; v2 null topics mean all the group has,
and an error on top; v5 leader epoch (KIP-320); v7 require_stable (KIP-447), which holds
of itself while there are no transactions; v8 many groups (KIP-709); v9 member epochs of
the new groups (KIP-848), not looked at for classic ones; v10 topic ids,
UNKNOWN_TOPIC_ID for one that is not known.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.groups.offsets import Committed, TopicPartition
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
Offsets = Mapping[TopicPartition, Committed]


class _Found(NamedTuple):
    """The offset of one partition."""

    partition: int
    committed: Committed
    code: ErrorCode = ErrorCode.NONE


@serves(ApiKey.OFFSET_FETCH, versions=(1, 10))
def offset_fetch(request: OffsetFetchRequest, context: Context) -> OffsetFetchResponse:
    if context.version >= 8:
        groups = [_group(group, context) for group in request.groups]
        return OffsetFetchResponse(groups=groups)
    broker = context.broker
    offsets = broker.groups.fetch(request.group_id)
    if request.topics is None:
        rows = [(topic.name, found) for topic, found in _all(offsets, broker)]
    else:
        rows = [
            (asked.name, _some(offsets, topic, asked.partition_indexes))
            for asked in request.topics
            for topic in [broker.topics.get(asked.name)]
        ]
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(
                name, [OffsetFetchResponsePartition(*_fields(one)) for one in found]
            )
            for name, found in rows
        ]
    )


def _group(
    asked: OffsetFetchRequestGroup, context: Context
) -> OffsetFetchResponseGroup:
    broker = context.broker
    offsets = broker.groups.fetch(asked.group_id)
    if asked.topics is None:
        rows = [(t.name, t.id, found) for t, found in _all(offsets, broker)]
    elif context.version >= 10:
        rows = [
            (
                topic.name,
                topic.topic_id,
                _by_id(offsets, broker, topic.topic_id, indexes),
            )
            for topic in asked.topics
            for indexes in [topic.partition_indexes]
        ]
    else:
        rows = [
            (t.name, t.topic_id, _some(offsets, broker.topics.get(t.name), indexes))
            for t in asked.topics
            for indexes in [t.partition_indexes]
        ]
    return OffsetFetchResponseGroup(
        asked.group_id,
        [
            OffsetFetchResponseTopics(
                name,
                topic_id,
                [OffsetFetchResponsePartitions(*_fields(one)) for one in found],
            )
            for name, topic_id, found in rows
        ],
    )


def _all(offsets: Offsets, broker: Broker) -> list[tuple[Topic, list[_Found]]]:
    """Everything the group has, of topics that exist."""
    found: dict[int, list[_Found]] = {}
    for (number, index), committed in offsets.items():
        found.setdefault(number, []).append(_Found(index, committed))
    topics = ((broker.topics.by_number(number), found[number]) for number in found)
    return [(topic, partitions) for topic, partitions in topics if topic is not None]


def _some(
    offsets: Offsets, topic: Topic | None, indexes: Iterable[int]
) -> list[_Found]:
    if topic is None:
        return [_Found(index, _NEVER) for index in indexes]
    number = topic.number
    return [_Found(i, offsets.get((number, i), _NEVER)) for i in indexes]


def _by_id(
    offsets: Offsets, broker: Broker, topic_id: bytes, indexes: Iterable[int]
) -> list[_Found]:
    topic = broker.topics.by_id(topic_id)
    if topic is None:
        unknown = ErrorCode.UNKNOWN_TOPIC_ID
        return [_Found(index, _NEVER, unknown) for index in indexes]
    return _some(offsets, topic, indexes)


def _fields(found: _Found) -> tuple[int, int, int, str, int]:
    partition, committed, code = found
    return (
        partition,
        committed.offset,
        committed.leader_epoch,
        committed.metadata,
        code,
    )
