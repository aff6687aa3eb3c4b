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
    ids = set(await completed(_ids_that_are_named(each, broker)))
    for topic_id in ids:
        each.pop((None, topic_id), None)  # its name is refused, for both
    results = await side_by_side(
        _delete(one, times > 1, ids, broker) for one, times in drained(each)
    )
    return DeleteTopicsResponse(responses=results)


def _ids_that_are_named(
    each: Mapping[tuple[str | None, bytes], object], broker: Broker
) -> Steps[list[bytes]]:
    """Ids of the request whose topics it names as well."""
    found: list[bytes] = []
    for count, (name, topic_id) in enumerate(each, 1):
        topic = None if name is None else broker.topics.get(name)
        if topic is not None and topic_id == NO_ID and (None, topic.id) in each:
            found.append(topic.id)
        if count % COUNTED_A_TURN == 0:
            yield
    return found


async def _delete(
    asked: DeleteTopicState, repeated: bool, ids: Set[bytes], broker: Broker
) -> DeletableTopicResult:
    result = DeletableTopicResult(name=asked.name, topic_id=asked.topic_id)
    try:
        if repeated:
            what = "id" if asked.name is None else "name"
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Duplicate topic {what}.")
        topic = _find(asked, broker)
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
