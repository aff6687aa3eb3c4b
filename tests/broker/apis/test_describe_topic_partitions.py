"""DescribeTopicPartitions: topics in pages that miss nothing and repeat nothing."""

from pathlib import Path

import pytest

from broker.apis.describe_topic_partitions import describe_topic_partitions
from broker.protocol.errors import ErrorCode
from broker.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from broker.runtime.operations import TOPIC_OPERATIONS
from broker.runtime.services import Broker
from tests.support.rig import NODE_ID, call, create, rig, run


def named(*names: str) -> list[TopicRequest]:
    return [TopicRequest(name) for name in names]


def test_topics_come_sorted_with_what_is_known_of_them(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "b", partitions=2)
            await create(broker, "a")
            request = DescribeTopicPartitionsRequest(named("b", "no", "a", "x/y"))
            response = await call(describe_topic_partitions, request, broker)
            codes = [(topic.name, topic.error_code) for topic in response.topics]
            assert codes == [
                ("a", 0),
                ("b", 0),
                ("no", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
                ("x/y", ErrorCode.INVALID_TOPIC_EXCEPTION),
            ]
            b = response.topics[1]
            assert b.topic_authorized_operations == TOPIC_OPERATIONS
            assert [p.partition_index for p in b.partitions] == [0, 1]
            assert b.partitions[0].isr_nodes == [NODE_ID]
            # Null is legal, and stops every tool that describes topics (Java 4).
            assert b.partitions[0].eligible_leader_replicas == []
            assert b.partitions[0].last_known_elr == []
            assert response.next_cursor is None
            assert len(broker.topics) == 2

    run(scenario)


async def pages(broker: Broker, limit: int) -> list[tuple[str, int]]:
    seen, cursor = [], None
    while True:
        request = DescribeTopicPartitionsRequest([], limit, cursor)
        response = await call(describe_topic_partitions, request, broker)
        page = [
            (topic.name, partition.partition_index)
            for topic in response.topics
            for partition in topic.partitions
        ]
        assert len(page) <= limit
        seen += page
        cursor = response.next_cursor
        if cursor is None:
            return seen


def test_any_limit_gives_every_partition_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            sizes = {"__consumer_offsets": 50, "a": 1, "b": 4, "c": 2, "d": 3}
            for name in "abcd":
                await create(broker, name, partitions=sizes[name])
            everything = [(name, i) for name, n in sizes.items() for i in range(n)]
            for limit in range(1, 12):
                assert await pages(broker, limit) == everything

    run(scenario)


@pytest.mark.parametrize("limit", [0, -5])
def test_a_limit_below_one_still_moves_on(tmp_path: Path, limit: int) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "a", partitions=2)
            request = DescribeTopicPartitionsRequest([], limit)
            response = await call(describe_topic_partitions, request, broker)
            assert len(response.topics[0].partitions) == 1

    run(scenario)
