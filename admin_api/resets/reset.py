"""A group's offsets set anew, through the broker, while nobody is in the group."""

from collections.abc import Mapping
from typing import Final

from confluent_kafka import ConsumerGroupState, KafkaError, KafkaException
from confluent_kafka.admin import OffsetSpec

from admin_api.kafka import UNCOMMITTED, Kafka
from admin_api.problems import Problem
from admin_api.resets.plan import Key, Offsets, plan
from admin_api.resets.schemas import Reset, ResetOffsets, ResetPartition, Target
from broker.topics import names

_INACTIVE: Final = (ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD)
PARTITIONS_MAX: Final = 10_000


async def reset(kafka: Kafka, group: str, wanted: ResetOffsets, now_ms: int) -> Reset:
    """What was set, or with ``dry_run`` would be.

    Raises Problem: 40901 while the group is active, 404 where there is nothing.
    """
    await _check_inactive(kafka, group)
    committed = await kafka.committed(group)
    keys = await _keys(kafka, wanted, committed)
    if not keys:
        raise Problem(404, f"Consumer group {group} has committed no offsets.")
    if len(keys) > PARTITIONS_MAX:
        raise Problem(400, f"These are more than {PARTITIONS_MAX} partitions.")
    earliest = await kafka.offsets(keys, OffsetSpec.earliest(), UNCOMMITTED)
    latest = await kafka.offsets(keys, OffsetSpec.latest(), UNCOMMITTED)
    at_time = await _at_time(kafka, wanted, keys, now_ms)
    found = plan(wanted, Offsets(committed, earliest, latest, at_time))
    if not wanted.dry_run and found:
        await _commit(kafka, group, found)
    return Reset(consumer_group_id=group, dry_run=wanted.dry_run, data=found)


async def _check_inactive(kafka: Kafka, group: str) -> None:
    try:
        found = await kafka.describe_group(group)
    except KafkaException as error:
        if error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
            return
        raise
    if found.state not in _INACTIVE:
        raise _active(group, found.state.name)


def _active(group: str, state: str) -> Problem:
    return Problem(
        40901,
        f"Offsets can only be reset if the group {group} is inactive, but its state "
        f"is {state}.",
    )


async def _keys(
    kafka: Kafka, wanted: ResetOffsets, committed: Mapping[Key, int]
) -> list[Key]:
    """The partitions that are meant. Raises Problem for one that is not there."""
    if wanted.topics is None:
        return list(committed)
    asked = {names.validate(one.topic_name): one.partitions for one in wanted.topics}
    keys = []
    for topic in await kafka.describe_topics(list(asked)):
        there = {one.id for one in topic.partitions}
        meant = asked[topic.name]
        for number in sorted(there if meant is None else set(meant)):
            if number not in there:
                raise Problem(40402, f"There is no partition {topic.name}-{number}.")
            keys.append((topic.name, number))
    return keys


async def _at_time(
    kafka: Kafka, wanted: ResetOffsets, keys: list[Key], now_ms: int
) -> dict[Key, int]:
    if wanted.to not in (Target.TIMESTAMP, Target.DURATION):
        return {}
    value = wanted.value or 0
    at_ms = value if wanted.to is Target.TIMESTAMP else max(0, now_ms - value)
    return await kafka.offsets(keys, OffsetSpec.for_timestamp(at_ms), UNCOMMITTED)


async def _commit(kafka: Kafka, group: str, found: list[ResetPartition]) -> None:
    offsets = {(one.topic_name, one.partition_id): one.new_offset for one in found}
    try:
        await kafka.commit(group, offsets)
    except KafkaException as error:
        if error.args[0].code() == KafkaError.UNKNOWN_MEMBER_ID:
            raise _active(group, "no more EMPTY") from None
        raise
