"""Metadata: what is told of brokers and topics, and what asking creates."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.apis import metadata as module
from broker.apis.metadata import metadata
from broker.dispatch.context import Context
from broker.dispatch.dispatcher import Route
from broker.dispatch.encoded import Encoded
from broker.dispatch.turns import Underway, WhileHeard
from broker.protocol.errors import ErrorCode
from broker.protocol.messages.describe_cluster import DescribeClusterRequest
from broker.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    PartitionData,
    TopicData,
)
from broker.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from broker.protocol.messages.find_coordinator import FindCoordinatorRequest
from broker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from broker.runtime.operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS
from broker.runtime.process.long_work import pieces
from broker.runtime.services import Broker
from tests.support.coordinating import House, housed, story
from tests.support.rig import NODE_ID, call, create, rig, run

NOT_ASKED = -(1 << 31)


def names(*wanted: str | None) -> list[MetadataRequestTopic]:
    return [MetadataRequestTopic(name=name) for name in wanted]


def test_brokers_cluster_and_controller_are_told(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            response = await call(metadata, MetadataRequest([]), broker)
            (node,) = response.brokers
            assert (node.node_id, node.host, node.port) == (NODE_ID, "localhost", 9092)
            assert response.controller_id == NODE_ID
            assert response.cluster_id == broker.cluster_id
            assert response.error_code == 0
            assert response.topics == []

    run(scenario)


def test_each_answer_has_the_same_number_for_the_broker_and_after_a_restart_too(
    tmp_path: Path,
) -> None:
    async def play() -> None:
        for _ in range(2):
            async with housed(tmp_path) as house:
                assert {number async for number in numbers_told(house)} == {7}

    story(play)


async def numbers_told(house: House) -> AsyncIterator[int]:
    """Each number of a broker that answers to clients and administrators name."""
    told = await house.ask(MetadataRequest(None), 8)
    yield told.controller_id
    for broker in told.brokers:
        yield broker.node_id
    for number in replicas_told(told.topics):
        yield number
    cluster = await house.ask(DescribeClusterRequest(), 0)
    yield cluster.controller_id
    for broker in cluster.brokers:
        yield broker.broker_id
    for kind in (0, 1):
        yield (await house.ask(FindCoordinatorRequest("g", kind), 1)).node_id
    asked = [TopicRequest("flights"), TopicRequest("weather")]
    described = await house.ask(DescribeTopicPartitionsRequest(asked), 0)
    for number in replicas_told(described.topics):
        yield number
    metadata = TopicData("__cluster_metadata", [PartitionData(0)])
    quorum = await house.ask(DescribeQuorumRequest([metadata]), 2)
    [partition] = quorum.topics[0].partitions
    yield partition.leader_id
    for voter in partition.current_voters:
        yield voter.replica_id
    for node in quorum.nodes:
        yield node.node_id


def replicas_told(topics: list[Any]) -> Iterator[int]:
    for topic in topics:
        for part in topic.partitions:
            yield from (part.leader_id, *part.replica_nodes, *part.isr_nodes)


def test_a_topic_is_told_with_its_id_and_partitions(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t", partitions=3)
            response = await call(metadata, MetadataRequest(names("t")), broker)
            (topic,) = response.topics
            assert topic.name == "t"
            assert topic.topic_id != bytes(16)
            assert [p.partition_index for p in topic.partitions] == [0, 1, 2]
            assert {p.leader_id for p in topic.partitions} == {NODE_ID}
            assert {p.leader_epoch for p in topic.partitions} == {0}
            assert topic.partitions[0].isr_nodes == [NODE_ID]

    run(scenario)


def test_the_names_of_kafka_s_own_topics_are_internal(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            request = MetadataRequest(names("__consumer_offsets", "mine"))
            response = await call(metadata, request, broker)
            told = {topic.name: topic.is_internal for topic in response.topics}
            assert told == {"__consumer_offsets": True, "mine": False}

    run(scenario)


@pytest.mark.parametrize(
    ("version", "asked", "found"),
    [(0, [], True), (1, None, True), (1, [], False), (12, None, True), (12, [], False)],
)
def test_all_topics_are_asked_for_differently_in_version_0(
    tmp_path: Path, version: int, asked: list[MetadataRequestTopic], found: bool
) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            response = await call(metadata, MetadataRequest(asked), broker, version)
            assert bool(response.topics) == found

    run(scenario)


@pytest.mark.parametrize(("version", "willing"), [(3, False), (4, True), (13, True)])
def test_asking_creates_if_client_and_broker_allow_it(
    tmp_path: Path, version: int, willing: bool
) -> None:
    async def scenario() -> None:
        async with rig(tmp_path, num_partitions=4) as broker:
            # before version 4 the field is not sent, and the client always willing
            request = MetadataRequest(names("new"), willing)
            response = await call(metadata, request, broker, version)
            assert response.topics[0].error_code == 0
            assert len(response.topics[0].partitions) == 4
            assert broker.topics.get("new") is not None

    run(scenario)


@pytest.mark.parametrize(("client", "server"), [(False, True), (True, False)])
def test_nothing_is_created_if_one_does_not_want_it(
    tmp_path: Path, client: bool, server: bool
) -> None:
    async def scenario() -> None:
        async with rig(tmp_path, auto_create_topics=server) as broker:
            request = MetadataRequest(names("new"), client)
            response = await call(metadata, request, broker)
            code = response.topics[0].error_code
            assert code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert broker.topics.get("new") is None

    run(scenario)


def test_nothing_is_created_beyond_the_limit_of_partitions(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path, partitions_max=1) as broker:
            request = MetadataRequest(names("a", "b"))
            first, second = (await call(metadata, request, broker)).topics
            assert (first.error_code, len(first.partitions)) == (0, 1)
            assert second.error_code == ErrorCode.POLICY_VIOLATION

    run(scenario)


def test_many_who_ask_at_once_get_one_topic(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            request = MetadataRequest(names("new"))
            responses = await asyncio.gather(
                *(call(metadata, request, broker) for _ in range(10))
            )
            ids = {response.topics[0].topic_id for response in responses}
            assert len(ids) == 1
            assert {response.topics[0].error_code for response in responses} == {0}

    run(scenario)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "x" * 250, "ä"])
def test_invalid_names_are_refused_and_not_created(tmp_path: Path, name: str) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            for willing in (True, False):
                request = MetadataRequest(names(name), willing)
                response = await call(metadata, request, broker)
                code = response.topics[0].error_code
                assert code == ErrorCode.INVALID_TOPIC_EXCEPTION
            assert len(broker.topics) == 0

    run(scenario)


def test_a_name_that_collides_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "a.b")
            response = await call(metadata, MetadataRequest(names("a_b")), broker)
            code = response.topics[0].error_code
            assert code == ErrorCode.INVALID_TOPIC_EXCEPTION

    run(scenario)


def test_names_that_collide_in_one_request_are_all_made(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            request = MetadataRequest(names("a.b", "a_b"))
            response = await call(metadata, request, broker)
            assert [one.error_code for one in response.topics] == [0, 0]

    run(scenario)


def test_topics_are_found_by_id_from_version_12(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            topic = broker.topics.get("t")
            assert topic is not None
            by_id = [MetadataRequestTopic(topic_id=topic.id, name=None)]
            response = await call(metadata, MetadataRequest(by_id), broker, 12)
            assert response.topics[0].name == "t"
            unknown = [MetadataRequestTopic(topic_id=b"?" * 16, name=None)]
            response = await call(metadata, MetadataRequest(unknown), broker, 12)
            assert response.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
            assert response.topics[0].topic_id == b"?" * 16

    run(scenario)


def test_ids_and_null_names_are_refused_before_version_12(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            for topic in (
                MetadataRequestTopic(topic_id=b"?" * 16, name="t"),
                MetadataRequestTopic(name=None),
            ):
                for version in (10, 11):
                    request = MetadataRequest([topic])
                    response = await call(metadata, request, broker, version)
                    code = response.topics[0].error_code
                    assert code == ErrorCode.INVALID_REQUEST
                    assert response.topics[0].name is not None

    run(scenario)


def test_authorized_operations_are_told_when_asked_for(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            request = MetadataRequest(names("t"))
            response = await call(metadata, request, broker, 8)
            assert response.cluster_authorized_operations == NOT_ASKED
            assert response.topics[0].topic_authorized_operations == NOT_ASKED
            request.include_cluster_authorized_operations = True
            request.include_topic_authorized_operations = True
            response = await call(metadata, request, broker, 8)
            assert response.cluster_authorized_operations == CLUSTER_OPERATIONS
            assert response.topics[0].topic_authorized_operations == TOPIC_OPERATIONS

    run(scenario)


def test_a_topic_named_twice_is_told_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            response = await call(metadata, MetadataRequest(names("t", "t")), broker)
            assert [topic.name for topic in response.topics] == ["t"]

    run(scenario)


@pytest.mark.parametrize("version", range(14))
def test_very_many_partitions_are_told_as_few_are(
    tmp_path: Path, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In turns, of parts that were kept; byte for byte what one turn would tell."""

    async def told(broker: Broker, per_turn: int, operations: bool) -> bytes:
        monkeypatch.setattr(module, "PARTITIONS_A_TURN", per_turn)
        request = MetadataRequest(None if version else [], True, operations, operations)
        response = await call(metadata, request, broker, version)
        assert isinstance(response, Encoded) == (per_turn < 100)
        route = Route(metadata.served, version)
        return b"".join(map(bytes, route.answer(7, response)[0]))

    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            for name, count in {"b": 3, "a": 1, "c": 140}.items():
                await create(broker, name, count)
            for operations in (False, True):
                whole = await told(broker, 1_000, operations)
                assert await told(broker, 1, operations) == whole
                assert await told(broker, 1, operations) == whole
            first, second = broker.topics.get("a"), broker.topics.get("b")
            assert first is not None
            assert second is not None
            await broker.topics.add_partitions(first, 5)
            await broker.topics.delete(second)
            await create(broker, "aa", 2)
            assert await told(broker, 1, False) == await told(broker, 1_000, False)

    run(scenario)


def test_a_topic_that_goes_while_all_are_told_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        monkeypatch.setattr(module, "PARTITIONS_A_TURN", 1)
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            topic = broker.topics.get("t")
            assert topic is not None
            telling = asyncio.ensure_future(
                call(metadata, MetadataRequest(None), broker, 12)
            )
            await asyncio.sleep(0)
            await broker.topics.delete(topic)
            await telling
            assert topic.number not in broker.topics.derived(("metadata", 12, False))

    run(scenario)


def test_a_topic_named_by_its_id_is_told_once_whatever_its_name(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            topic_id = broker.topics.named("t").id
            asked = [
                MetadataRequestTopic(topic_id=topic_id, name=f"n{i % 9}")
                for i in range(3 * module.COUNTED_A_TURN)
            ]
            response = await call(metadata, MetadataRequest(asked), broker, 12)
            assert [topic.name for topic in response.topics] == ["t"]

    run(scenario)


@pytest.mark.parametrize("first", ["no/name", "t"])
def test_who_hangs_up_asks_for_no_more_of_many_topics(
    tmp_path: Path, first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither to be told of them, nor to make them, but for what is being made."""
    monkeypatch.setattr(module, "PARTITIONS_A_TURN", 10)

    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "large", 1_000)
            asked = names(first, "large", *["u"] * (first == "t"))
            context = Context(12, "c", 3, "h", broker)
            underway = metadata(MetadataRequest(asked), context)
            assert isinstance(underway, Underway | WhileHeard)
            await asyncio.sleep(0)
            underway.abandon()
            for _ in range(9):
                await asyncio.sleep(0)
            assert underway.cancelled()
            assert not pieces()
            await create(broker, "later")  # behind what was being made
            made = {topic.name for topic in broker.topics.all() if not topic.internal}
            assert made == {
                *(["t"] if first == "t" else []),
                "large",
                "later",
            }

    run(scenario)
