"""DescribeQuorum: one node decides."""

import pytest

from broker.dispatch.turns import ITEMS_A_TURN
from broker.protocol.errors import ErrorCode
from broker.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    PartitionData,
    TopicData,
)
from tests.support.coordinating import housed, story


def of(name, *partitions):
    return TopicData(name, [PartitionData(index) for index in partitions])


def test_the_quorum_is_this_node(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            request = DescribeQuorumRequest([of("__cluster_metadata", 0)])
            for version in range(3):
                answer = await house.ask(request, version)
                assert answer.error_code == 0
                (partition,) = answer.topics[0].partitions
                assert partition.error_code == 0
                assert partition.leader_id == house.broker.node_id
                (voter,) = partition.current_voters
                assert voter.replica_id == house.broker.node_id
                assert not partition.observers
            (node,) = answer.nodes
            host, port = house.broker.advertised
            (listener,) = node.listeners
            assert (listener.host, listener.port) == (host, port)

    story(play)


@pytest.mark.parametrize(
    "topics",
    [
        [of("flights", 0)],
        [of("__cluster_metadata", 1)],
        [of("__cluster_metadata", 0, 0)],
        [of("__cluster_metadata", 0), of("flights", 0)],
        [of("x" * 32_767, *range(3 * ITEMS_A_TURN))],
    ],
    ids=["another", "partition", "twice", "two", "long"],
)
def test_nothing_else_is_one(tmp_path, topics):
    async def play():
        async with housed(tmp_path) as house:
            answer = await house.ask(DescribeQuorumRequest(topics), 2)
            found = [one for topic in answer.topics for one in topic.partitions]
            assert len(found) == sum(len(topic.partitions) for topic in topics)
            for one in found:
                assert one.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    story(play)
