"""DeleteTopics: topics that are gone when the answer leaves.

Behavior: when the catalog has committed, the partitions vanish and waiting fetches are
answered; a deletion that fails changes nothing. The table goes after a delay, by a job.
A topic made again under the name has another id, and is not meant.
Version notes: v5 messages; v6 by id (KIP-516).
"""

from collections.abc import Awaitable, Iterable

from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.dispatch.turns import (
    COUNTED_A_TURN,
    ITEMS_A_TURN,
    Steps,
    are_few,
    drained,
    in_turns,
    side_by_side,
)
from broker.protocol.api_keys import ApiKey
from broker.protocol.errors import (
    ErrorCode,
    KafkaError,
    unknown_partition,
    unknown_topic_id,
)
from broker.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from broker.runtime.services import Broker
from broker.topics.topic import Topic

NO_ID = bytes(16)
_Name = tuple[str | None, bytes]
_Named = tuple[DeleteTopicState, int, Topic | None]
_NONE: _Named = DeleteTopicState(), 0, None
_TWICE = "The provided topic name maps to an ID that was already supplied."
_Found = list[tuple[Topic, DeletableTopicResult]]


@serves(ApiKey.DELETE_TOPICS, versions=(0, 6))
def delete_topics(
    request: DeleteTopicsRequest, context: Context
) -> DeleteTopicsResponse | Awaitable[DeleteTopicsResponse]:
    asked: Iterable[DeleteTopicState] = request.topics
    if context.version < 6:
        asked = (DeleteTopicState(name=name) for name in request.topic_names)
    return in_turns(
        _delete_all(asked, context.broker),
        at_once=are_few(request.topics, request.topic_names),
    )


def _delete_all(
    asked: Iterable[DeleteTopicState], broker: Broker
) -> Steps[DeleteTopicsResponse | Awaitable[DeleteTopicsResponse]]:
    """Find out which topics are meant, and then delete these: who hangs up before that
    has asked for nothing, and a topic that is made after it is not meant."""
    each = yield from _meant(asked, broker)
    ids = yield from _named_too(each)
    response, found = DeleteTopicsResponse(), _Found()
    for count, (one, times, topic) in enumerate(drained(each), 1):
        result = DeletableTopicResult(name=one.name, topic_id=one.topic_id)
        response.responses.append(result)
        try:
            topic = _checked(one, times > 1, topic)
            if topic.id in ids and one.topic_id == NO_ID:
                result.topic_id = topic.id
                raise KafkaError(ErrorCode.INVALID_REQUEST, _TWICE)
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message
        else:
            found.append((topic, result))
        if count % ITEMS_A_TURN == 0:
            yield
    return _when_deleted(found, response, broker) if found else response


def _meant(
    asked: Iterable[DeleteTopicState], broker: Broker
) -> Steps[dict[_Name, _Named]]:
    """What is named, how often, and which topic that is now, if any."""
    each: dict[_Name, _Named] = {}
    for count, one in enumerate(asked, 1):
        key = one.name, one.topic_id
        before = each.get(key)
        if before is None:
            each[key] = one, 1, _topic_of(one, broker)
        else:
            each[key] = before[0], before[1] + 1, before[2]
        if count % COUNTED_A_TURN == 0:
            yield
    return each


def _topic_of(asked: DeleteTopicState, broker: Broker) -> Topic | None:
    if asked.topic_id != NO_ID:
        return broker.topics.by_id(asked.topic_id)
    return None if asked.name is None else broker.topics.get(asked.name)


def _named_too(each: dict[_Name, _Named]) -> Steps[set[bytes]]:
    """Take the ids out whose topics are named as well, both once: the name is refused,
    for both. Returns those of which the name is."""
    twice: set[bytes] = set()
    for count, key in enumerate(tuple(each), 1):
        _, times, topic = each.get(key, _NONE)
        by_id = None if topic is None else each.get((None, topic.id))
        if topic is not None and by_id is not None and key[1] == NO_ID and times == 1:
            twice.add(topic.id)
            if by_id[1] == 1:
                del each[None, topic.id]
        if count % COUNTED_A_TURN == 0:
            yield
    return twice


def _checked(asked: DeleteTopicState, repeated: bool, topic: Topic | None) -> Topic:
    """The topic that is to go. Raises KafkaError."""
    by_id = asked.topic_id != NO_ID
    if by_id and asked.name is not None:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "You may not specify both topic name and topic id.",
        )
    if not by_id and asked.name is None:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified."
        )
    if repeated:
        what = "id" if asked.name is None else "name"
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Duplicate topic {what}.")
    if topic is None:
        raise unknown_topic_id() if by_id else unknown_partition()
    return topic


async def _when_deleted(
    found: _Found, response: DeleteTopicsResponse, broker: Broker
) -> DeleteTopicsResponse:
    await side_by_side(_delete(topic, result, broker) for topic, result in found)
    return response


async def _delete(topic: Topic, result: DeletableTopicResult, broker: Broker) -> None:
    result.name, result.topic_id = topic.name, topic.id
    try:
        await broker.topics.delete(topic)
    except KafkaError as error:
        result.error_code, result.error_message = error.code, error.message
