"""DescribeQuorum: one node decides."""

import pytest

from broker.dispatch.turns import ITEMS_A_TURN
from broker.protocol.api_keys import ApiKey
from broker.protocol.codec import response_decoder
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
                assert partition.high_watermark == 0  # kafka-python's tests take no -1
                (voter,) = partition.current_voters
                assert voter.replica_id == house.broker.node_id
                assert voter.log_end_offset == 0
                assert not partition.observers
            (node,) = answer.nodes
            host, port = house.broker.advertised
            (listener,) = node.listeners
            assert (listener.host, listener.port) == (host, port)

    story(play)


# What Apache Kafka 4.3.1, node 1 alone, answered in each version: the raw bytes.
_TOPIC = "02135f5f636c75737465725f6d65746164617461020000000000"
_LEADER = "0000000100000001"  # its number, its epoch
_END = "0000000000000f01"
_TIME = "000001a20add31ac"
_DIRECTORY = "9bcac2b3643045eea9ecc887d9b902b7"
_NODE = "0200000001020b434f4e54524f4c4c45520a3132372e302e302e31500c0000"
KAFKA_SAID = (
    f"0000{_TOPIC}00{_LEADER}{_END}0200000001{_END}0001000000",
    f"0000{_TOPIC}00{_LEADER}{_END}0200000001{_END}{_TIME}{_TIME}0001000000",
    f"000001{_TOPIC}0001{_LEADER}{_END}0200000001{_DIRECTORY}{_END}{_TIME}{_TIME}"
    f"00010000{_NODE}00",
)
NOT_HERE = {"leader_epoch", "high_watermark", "log_end_offset", "replica_directory_id"}
"""There is no log of metadata, and so none has led it, nor a directory of its own."""


@pytest.mark.parametrize("version", range(3))
def test_what_there_is_is_answered_as_kafka_answers_it(tmp_path, version):
    async def play():
        async with housed(tmp_path) as house:
            raw = memoryview(bytes.fromhex(KAFKA_SAID[version]))
            kafkas = response_decoder(int(ApiKey.DESCRIBE_QUORUM), version)(raw, 0)
            request = DescribeQuorumRequest([of("__cluster_metadata", 0)])
            ours = await house.ask(request, version)
            assert len(ours.nodes) == len(kafkas.nodes) == (version == 2)
            names = [one.listeners[0].name for one in (*ours.nodes, *kafkas.nodes)]
            assert names == ["CONTROLLER"] * 2 * (version == 2)
            [there], [here] = kafkas.topics[0].partitions, ours.topics[0].partitions
            [voter_there], [voter_here] = there.current_voters, here.current_voters
            here.leader_id = voter_here.replica_id = 1  # as that Kafka's number
            now_ms = house.clock.now_ms() if version else -1
            times = voter_here.last_fetch_timestamp, voter_here.last_caught_up_timestamp
            assert times == (now_ms, now_ms)
            assert (voter_there.last_fetch_timestamp > 0) == (version > 0)
            voter_here.last_fetch_timestamp = voter_there.last_fetch_timestamp
            voter_here.last_caught_up_timestamp = voter_there.last_caught_up_timestamp
            differing = unlike(there, here) | unlike(voter_there, voter_here)
            without = {"replica_directory_id"} if version < 2 else set()
            assert differing == (NOT_HERE - without) | {"current_voters"}

    story(play)


def unlike(one, other):
    """The fields in which two answers differ."""
    return {
        field for field in one.__slots__ if getattr(one, field) != getattr(other, field)
    }


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
