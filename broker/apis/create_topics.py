"""CreateTopics: new topics, each accepted or refused by itself.

Behavior: one node, so a replication factor is 1 (or -1, the default) and a manual
assignment names this node alone and excludes counts. A topic is durable in the catalog
before it is answered; the client's timeout is therefore never needed. More partitions
than one request may make, or than this broker may have, are POLICY_VIOLATION. A name
that collides in metrics with one that is there (``a.b``, ``a_b``) is refused; two of
one request are both made, as Kafka does, which asks what was there before.
Version notes: v1 messages and validate_only; v4 the default counts (-1, KIP-464);
v5 the configurations in the answer (KIP-525); v7 the topic's id (KIP-516).
"""

from collections.abc import Awaitable

from broker.apis._assignment import check_assignment
from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.dispatch.turns import (
    COUNTED_A_TURN,
    Steps,
    completed,
    drained,
    grouped_in_turns,
    listed_in_turns,
    side_by_side,
    while_heard,
)
from broker.protocol.api_keys import ApiKey
from broker.protocol.errors import ErrorCode, KafkaError
from broker.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from broker.runtime.services import Broker
from broker.runtime.topics.config_describe import describe_topic_configs
from broker.runtime.topics.topics import check_created_at_once
from broker.topics.names import Taken

DEFAULT = -1


@serves(ApiKey.CREATE_TOPICS, versions=(0, 7))
def create_topics(
    request: CreateTopicsRequest, context: Context
) -> Awaitable[CreateTopicsResponse]:
    return while_heard(_create_all(request, context.broker), len(request.topics))


async def _create_all(
    request: CreateTopicsRequest, broker: Broker
) -> CreateTopicsResponse:
    asked = await completed(grouped_in_turns(request.topics, lambda topic: topic.name))
    try:
        check_created_at_once(await completed(_partitions(request, broker)))
    except KafkaError as error:  # all of them: Kafka makes none of such a request
        refused = listed_in_turns(_refused(name, error) for name in asked)
        return CreateTopicsResponse(topics=await completed(refused))
    repeated = await completed(_take_repeated(asked))
    made = Taken()
    results = await side_by_side(  # the catalog commits them together
        _create(topic, request.validate_only, broker, made)
        for topic, _ in drained(asked)
    )
    twice = KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    refused = listed_in_turns(_refused(name, twice) for name in repeated)
    results += await completed(refused)
    return CreateTopicsResponse(topics=results)


def _take_repeated(asked: dict[str, tuple[CreatableTopic, int]]) -> Steps[list[str]]:
    """Take the topics out that were named more than once; their names."""
    repeated: list[str] = []
    for count, name in enumerate(tuple(asked), 1):
        if asked[name][1] > 1:
            del asked[name]
            repeated.append(name)
        if count % COUNTED_A_TURN == 0:
            yield
    return repeated


def _partitions(request: CreateTopicsRequest, broker: Broker) -> Steps[int]:
    """Count the partitions of all topics of a request, right or wrong."""
    partitions = 0
    for count, topic in enumerate(request.topics, 1):
        partitions += _counted(topic, broker)
        if count % COUNTED_A_TURN == 0:
            yield
    return partitions


def _refused(name: str, error: KafkaError) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=name, error_code=error.code, error_message=error.message
    )


def _counted(asked: CreatableTopic, broker: Broker) -> int:
    """Partitions that a topic counts for in its request."""
    if asked.assignments:
        return len(asked.assignments)
    if asked.num_partitions == DEFAULT:
        return int(broker.settings.broker.num_partitions)
    return max(0, asked.num_partitions)


async def _create(
    asked: CreatableTopic, validate_only: bool, broker: Broker, made: Taken
) -> CreatableTopicResult:
    try:
        partitions = _partition_count(asked, broker)
        configs = await completed(_configs(asked))
        kept = broker.topics.check_new(asked.name, partitions, configs, made)
        topic_id = bytes(16)
        if not validate_only:
            created = await broker.topics.create(asked.name, partitions, kept, made)
            topic_id = created.id
    except KafkaError as error:
        return _refused(asked.name, error)
    return CreatableTopicResult(
        name=asked.name,
        topic_id=topic_id,
        error_message=None,
        num_partitions=partitions,
        replication_factor=1,
        configs=[
            CreatableTopicConfigs(
                name=config.name,
                value=config.value,
                read_only=False,
                config_source=config.source,
                is_sensitive=False,
            )
            for config in describe_topic_configs(kept, broker.configs.layers)
        ],
    )


def _configs(asked: CreatableTopic) -> Steps[dict[str, str | None]]:
    """Gather what a topic is to be configured with; of a key named twice the last."""
    configs: dict[str, str | None] = {}
    for count, config in enumerate(asked.configs, 1):
        configs[config.name] = config.value
        if count % COUNTED_A_TURN == 0:
            yield
    return configs


def _partition_count(asked: CreatableTopic, broker: Broker) -> int:
    """How many partitions are meant; raises for counts that one node cannot serve."""
    if asked.assignments:
        return _assigned_count(asked, broker.node_id)
    if asked.replication_factor not in (DEFAULT, 1):
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, _too_many(asked))
    if asked.num_partitions == DEFAULT:
        return int(broker.settings.broker.num_partitions)
    return asked.num_partitions


def _too_many(asked: CreatableTopic) -> str:
    if asked.replication_factor <= 0:
        return "Replication factor must be larger than 0, or -1 to use the default."
    return (
        f"Unable to replicate the partition {asked.replication_factor} time(s): "
        f"The target replication factor of {asked.replication_factor} cannot be "
        "reached because only 1 broker(s) are registered or some brokers have all "
        "their log directories cordoned."
    )


def _assigned_count(asked: CreatableTopic, node_id: int) -> int:
    """How many partitions are assigned, in the order of Kafka's checks."""
    for what, given in (
        ("replication factor", asked.replication_factor),
        ("numPartitions", asked.num_partitions),
    ):
        if given != DEFAULT:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"A manual partition assignment was specified, but {what} was not set "
                "to -1.",
            )
    indexes = set[int]()
    for one in asked.assignments:
        if one.partition_index in indexes:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                "Found multiple manual partition assignments for partition "
                f"{one.partition_index}",
            )
        indexes.add(one.partition_index)
        check_assignment(one.broker_ids, node_id)
    if indexes != set(range(len(indexes))):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        )
    return len(indexes)
