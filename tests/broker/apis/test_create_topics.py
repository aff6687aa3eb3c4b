"""CreateTopics: what is made, what is refused, and what of it survives."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from broker.apis.create_topics import create_topics
from broker.protocol.errors import ErrorCode
from broker.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from broker.runtime.services import Broker
from broker.topics.config_keys import ConfigSource
from broker.topics.configs import TOPIC_CONFIGS
from tests.support.rig import NODE_ID, call, create, rig, run


async def ask(broker: Broker, *topics: Any, **fields: Any) -> list[Any]:
    request = CreateTopicsRequest(list(topics), **fields)
    response = await call(create_topics, request, broker)
    results: list[CreatableTopicResult] = response.topics
    return results


def topic(name: str, partitions: int = -1, factor: int = -1) -> CreatableTopic:
    return CreatableTopic(name, partitions, factor)


def test_a_topic_has_an_id_partitions_and_all_its_configs(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            wanted = topic("t", 3, 1)
            wanted.configs = [CreatableTopicConfig("retention.ms", "5")]
            (result,) = await ask(broker, wanted)
            assert (result.error_code, result.error_message) == (0, None)
            assert (result.num_partitions, result.replication_factor) == (3, 1)
            made = broker.topics.get("t")
            assert made is not None
            assert result.topic_id == made.id != bytes(16)
            configs = {config.name: config for config in result.configs}
            assert configs.keys() == TOPIC_CONFIGS.keys()
            assert configs["retention.ms"].value == "5"
            assert configs["retention.ms"].config_source == ConfigSource.TOPIC_CONFIG

    run(scenario)


def test_minus_one_means_the_broker_s_defaults(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path, num_partitions=6) as broker:
            (result,) = await ask(broker, topic("t"))
            assert (result.num_partitions, result.replication_factor) == (6, 1)

    run(scenario)


def test_validate_only_makes_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            good, bad = await ask(
                broker, topic("t", 2), topic("x", 0), validate_only=True
            )
            assert (good.error_code, good.topic_id) == (0, bytes(16))
            assert bad.error_code == ErrorCode.INVALID_PARTITIONS
            assert len(broker.topics) == 0

    run(scenario)


@pytest.mark.parametrize(
    ("name", "partitions", "factor", "code"),
    [
        ("..", 1, 1, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("a/b", 1, 1, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("x" * 250, 1, 1, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("is_there", 1, 1, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("is.there", 1, 1, ErrorCode.TOPIC_ALREADY_EXISTS),
        ("t", 0, 1, ErrorCode.INVALID_PARTITIONS),
        ("t", -2, 1, ErrorCode.INVALID_PARTITIONS),
        ("t", 96, 1, ErrorCode.POLICY_VIOLATION),
        ("t", 1, 2, ErrorCode.INVALID_REPLICATION_FACTOR),
        ("t", 1, 0, ErrorCode.INVALID_REPLICATION_FACTOR),
    ],
)
def test_what_cannot_be_is_refused_with_a_message(
    tmp_path: Path, name: str, partitions: int, factor: int, code: ErrorCode
) -> None:
    async def scenario() -> None:
        async with rig(tmp_path, partitions_max=97) as broker:
            await create(broker, "is.there")
            await create(broker, "also.there")
            refused, made = await ask(
                broker, topic(name, partitions, factor), topic("other", 1, 1)
            )
            assert refused.error_code == code
            assert refused.error_message
            assert made.error_code == 0

    run(scenario)


@pytest.mark.parametrize("counts", [(10_001, 1), (5_000, 5_001), (2_000_000_000, 1)])
def test_a_request_for_too_many_partitions_makes_none(
    tmp_path: Path, counts: tuple[int, int]
) -> None:
    """As Kafka: the whole request is refused, each of its topics with the reason."""

    async def scenario() -> None:
        async with rig(tmp_path, partitions_max=2_000_000_000) as broker:
            results = await ask(broker, topic("a", counts[0]), topic("b", counts[1]))
            assert {result.error_code for result in results} == {
                ErrorCode.POLICY_VIOLATION
            }
            assert {result.error_message for result in results} == {
                "Excessively large number of partitions per request."
            }
            assert len(broker.topics) == 0

    run(scenario)


def test_a_broker_has_a_limit_of_partitions_in_all(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path, partitions_max=10) as broker:
            side_by_side = await ask(broker, *(topic(f"t{i}", 3) for i in range(5)))
            codes = [result.error_code for result in side_by_side]
            assert codes == [0, 0, 0, *[ErrorCode.POLICY_VIOLATION] * 2]
            assert "broker.partitions_max" in (side_by_side[-1].error_message or "")
            first = broker.topics.get("t0")
            assert first is not None
            await broker.topics.delete(first)
            (result,) = await ask(broker, topic("t5", 4))
            assert result.error_code == 0
        async with rig(tmp_path, partitions_max=10) as broker:
            (result,) = await ask(broker, topic("t6", 1))
            assert result.error_code == ErrorCode.POLICY_VIOLATION

    run(scenario)


@pytest.mark.parametrize(
    ("name", "value"),
    [("retention.ms", "soon"), ("no.such.key", "1"), ("retention.ms", None)],
)
def test_configs_are_validated(tmp_path: Path, name: str, value: str | None) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            wanted = topic("t")
            wanted.configs = [CreatableTopicConfig(name, value)]
            (result,) = await ask(broker, wanted)
            assert result.error_code == ErrorCode.INVALID_CONFIG
            assert len(broker.topics) == 0

    run(scenario)


def test_a_name_asked_for_twice_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            fine, twice = await ask(broker, topic("t"), topic("u"), topic("t"))
            assert (fine.name, fine.error_code) == ("u", 0)
            assert (twice.name, twice.error_code) == ("t", ErrorCode.INVALID_REQUEST)

    run(scenario)


@pytest.mark.parametrize("names", ["a.x a_x", "a_x a.x", "a.x.y a_x.y a.x_y a_x_y"])
def test_names_that_collide_in_one_request_are_all_made(
    tmp_path: Path, names: str
) -> None:
    """What Kafka 4.3.1 does: it asks what was there before the request."""
    collide = ErrorCode.INVALID_TOPIC_EXCEPTION
    first, *others = names.split()

    async def codes(broker: Broker, *names: str, **fields: Any) -> list[int]:
        results = await ask(broker, *map(topic, names), **fields)
        assert sorted(one.name for one in results) == sorted(names)
        return [one.error_code for one in results]

    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            for validate_only in (True, False):
                found = await codes(
                    broker, first, *others, "z", validate_only=validate_only
                )
                assert found == [0] * (2 + len(others))
            await create(broker, "b.x")
            exists = ErrorCode.TOPIC_ALREADY_EXISTS
            assert await codes(broker, "b_x", "b.x", "c.x") == [collide, exists, 0]
            assert await codes(broker, "b_x", validate_only=True) == [collide]
            assert await codes(broker, "a-x", first.replace("x", "X")) == [0, 0]

    run(scenario)


def test_a_name_beside_one_that_could_not_be_made_collides_with_nothing(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            wrong = topic("g.x")
            wrong.configs.append(CreatableTopicConfig("nope", "1"))
            results = await ask(broker, wrong, topic("g_x"))
            codes = [one.error_code for one in results]
            assert codes == [ErrorCode.INVALID_CONFIG, 0]
            (after,) = await ask(broker, topic("g.x"))
            assert after.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION

    run(scenario)


def test_two_clients_make_one_topic(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            results = await asyncio.gather(*(ask(broker, topic("t")) for _ in range(5)))
            codes = sorted(result[0].error_code for result in results)
            assert codes == [0] + [ErrorCode.TOPIC_ALREADY_EXISTS] * 4

    run(scenario)


def test_assignments_name_this_node_and_exclude_counts(tmp_path: Path) -> None:
    def assigned(*partitions: tuple[int, list[int]], count: int = -1) -> CreatableTopic:
        wanted = topic("t", count)
        wanted.assignments = [CreatableReplicaAssignment(*one) for one in partitions]
        return wanted

    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            for wanted, code in (
                (assigned((0, [NODE_ID]), count=1), ErrorCode.INVALID_REQUEST),
                (assigned((0, [99])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
                (assigned((1, [NODE_ID])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
                (assigned((1, [NODE_ID]), (0, [NODE_ID])), 0),
            ):
                (result,) = await ask(broker, wanted)
                assert result.error_code == code
            assert result.num_partitions == 2

    run(scenario)


def test_topics_survive_a_restart_with_their_ids(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            (before,) = await ask(broker, topic("t", 3))
            cluster_id = broker.cluster_id
        async with rig(tmp_path) as broker:
            after = broker.topics.get("t")
            assert after is not None
            assert (after.id, after.partitions) == (before.topic_id, 3)
            assert broker.cluster_id == cluster_id

    run(scenario)


@pytest.mark.parametrize("validate_only", [False, True])
def test_a_topic_names_a_warehouse_that_the_operator_allows(
    tmp_path: Path, *, validate_only: bool
) -> None:
    def named(name: str) -> CreatableTopic:
        wanted = topic(f"of-{len(name)}")
        wanted.configs = [CreatableTopicConfig("lake.warehouse", name)]
        return wanted

    async def scenario() -> None:
        async with rig(tmp_path, warehouses="fast=/mnt/fast, slow=/mnt/slow") as broker:
            names = ["fast", "", "others", "/mnt/fast"]
            asked = map(named, names)
            results = await ask(broker, *asked, validate_only=validate_only)
            assert [one.error_code for one in results] == [
                0, 0, ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_CONFIG
            ]  # fmt: skip
            assert results[2].error_message == (
                "lake.warehouse=others is none of the broker's lake.warehouses, which "
                "are: fast, slow"
            )
            made = broker.topics.get("of-4")
            assert (made is None) == validate_only
            assert made is None or made.configs == {"lake.warehouse": "fast"}

    run(scenario)
