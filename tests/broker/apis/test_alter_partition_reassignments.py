"""AlterPartitionReassignments: to where it is, and nowhere else."""

from broker.dispatch.turns import ITEMS_A_TURN
from broker.protocol.errors import ErrorCode
from broker.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tests.support.coordinating import housed, story


def asked(name, *partitions):
    each = [ReassignablePartition(*one) for one in partitions]
    return AlterPartitionReassignmentsRequest(
        60_000, topics=[ReassignableTopic(name, each)]
    )


def test_a_partition_may_move_to_the_node_where_it_is(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            here = house.broker.node_id
            request = asked("flights", (0, [here]), (1, [here + 1]), (0, None), (9, []))
            for version in (0, 1):
                answer = await house.ask(request, version)
                assert answer.error_code == 0
                (topic,) = answer.responses
                codes = [one.error_code for one in topic.partitions]
                assert codes == [
                    ErrorCode.NONE,
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                ]
                assert topic.partitions[0].error_message is None

    story(play)


def test_what_is_far_too_long_is_refused_shortly(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            many = [(index, [9] * 50) for index in range(3 * ITEMS_A_TURN)]
            answer = await house.ask(asked("x" * 32_767, *many), 1)
            (topic,) = answer.responses
            assert len(topic.partitions) == len(many)
            for one in topic.partitions:
                assert one.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                assert len(one.error_message) < 300
            answer = await house.ask(asked("flights", (0, [9] * 100_000)), 1)
            (one,) = answer.responses[0].partitions
            assert one.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT

    story(play)
