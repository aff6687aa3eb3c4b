"""DeleteTopics: topics that are gone when the answer leaves.

Behavior: when the catalog has committed, the partitions vanish and waiting fetches are
answered; a deletion that fails changes nothing. The table goes after a delay, by a job.
A topic made again under the name has another id.
Version notes: v5 messages; v6 by id (KIP-516).
"""

from collections.abc import Awaitable, Iterable

from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.dispatch.turns import completed, drained, grouped_in_turns, side_by_side
from broker.protocol.api_keys import ApiKey
from broker.protocol.errors import ErrorCode, KafkaError
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
    results = await side_by_side(
        _delete(one, times > 1, broker) for one, times in drained(each)
    )
    return DeleteTopicsResponse(responses=results)


async def _delete(
    asked: DeleteTopicState, repeated: bool, broker: Broker
) -> DeletableTopicResult:
    result = DeletableTopicResult(name=asked.name, topic_id=asked.topic_id)
    try:
        if repeated:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name or id.")
        topic = _find(asked, broker)
        result.name, result.topic_id = topic.name, topic.id
        await broker.topics.delete(topic)
    except KafkaError as error:
        result.error_code, result.error_message = error.code, error.message
    return result


def _find(asked: DeleteTopicState, broker: Broker) -> Topic:
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
    return broker.topics.named(asked.name)
