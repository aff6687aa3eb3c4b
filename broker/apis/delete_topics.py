"""DeleteTopics: topics that are gone when the answer leaves.

Behavior: when the catalog has committed, the partitions vanish and waiting fetches are
answered; a deletion that fails changes nothing. The table goes after a delay, by a job.
A topic made again under the name has another id.
Version notes: v5 messages; v6 by id (KIP-516).
"""

from collections.abc import Awaitable, Iterable, Mapping, Set

from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.dispatch.turns import (
    COUNTED_A_TURN,
    Steps,
    completed,
    drained,
    grouped_in_turns,
    side_by_side,
)
from broker.protocol.api_keys import ApiKey
from broker.protocol.errors import ErrorCode, KafkaError, unknown_partition
from broker.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from broker.runtime.services import Broker
from broker.topics.topic import Topic

NO_ID = bytes(16)


@serves(ApiKey.DELETE_TOPICS, versions=(0, 6))
def delete_topics(
    request: DeleteTopicsRequest, context: Context
) -> Awaitable[DeleteTopicsResponse]:
    asked: Iterable[DeleteTopicState] = request.topics
    if context.version < 6:
        asked = (DeleteTopicState(name=name) for name in request.topic_names)
    return _delete_all(asked, context.broker)


async def _delete_all(
    asked: Iterable[DeleteTopicState], broker: Broker
) -> DeleteTopicsResponse:
    named = grouped_in_turns(asked, lambda one: (one.name, one.topic_id))
    each = await completed(named)
    meant, ids = await completed(_meant(each, broker))
    for topic_id in ids:
        each.pop((None, topic_id), None)  # its name is refused, for both
    results = await side_by_side(
        _delete(one, times > 1, ids, meant, broker) for one, times in drained(each)
    )
    return DeleteTopicsResponse(responses=results)


def _meant(
    each: Mapping[tuple[str | None, bytes], object], broker: Broker
) -> Steps[tuple[dict[str, bytes], set[bytes]]]:
    """Which topics are named now, by their ids: one that is made while others are
    deleted is not meant. And ids of the request whose topics it names as well."""
    meant: dict[str, bytes] = {}
    twice: set[bytes] = set()
    for count, (name, topic_id) in enumerate(each, 1):
        topic = None if name is None else broker.topics.get(name)
        if topic is not None and topic_id == NO_ID:
            meant[topic.name] = topic.id
            if (None, topic.id) in each:
                twice.add(topic.id)
        if count % COUNTED_A_TURN == 0:
            yield
    return meant, twice


async def _delete(
    asked: DeleteTopicState,
    repeated: bool,
    ids: Set[bytes],
    meant: Mapping[str, bytes],
    broker: Broker,
) -> DeletableTopicResult:
    result = DeletableTopicResult(name=asked.name, topic_id=asked.topic_id)
    try:
        if repeated:
            what = "id" if asked.name is None else "name"
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Duplicate topic {what}.")
        topic = _find(asked, meant, broker)
        if topic.id in ids:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                "The provided topic name maps to an ID that was already supplied.",
            )
        result.name, result.topic_id = topic.name, topic.id
        await broker.topics.delete(topic)
    except KafkaError as error:
        result.error_code, result.error_message = error.code, error.message
    return result


def _find(asked: DeleteTopicState, meant: Mapping[str, bytes], broker: Broker) -> Topic:
    by_id = asked.topic_id != NO_ID
    if by_id and asked.name is not None:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "You may not specify both topic name and topic id.",
        )
    if by_id:
        return broker.topics.identified(asked.topic_id)
    if asked.name is None:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified."
        )
    topic = broker.topics.named(asked.name)
    if topic.id != meant.get(asked.name):
        raise unknown_partition()
    return topic
