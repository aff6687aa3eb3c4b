"""Replicas that clients choose, checked in Kafka's words."""

import pytest

from broker.apis._assignment import check_assignment
from broker.protocol.errors import ErrorCode, KafkaError


def test_this_node_alone_can_be_chosen():
    check_assignment([1], 1)


@pytest.mark.parametrize(
    ("nodes", "why"),
    [
        ([], "an empty replica list."),
        ([1, 1], "the broker 1 more than once."),
        ([9], "broker 9, but no such broker is registered."),
        ([1, -1], "broker -1, but no such broker is registered."),
        ([1, 1, 9], "the broker 1 more than once."),
        ([9] * 100_000, "broker 9, but no such broker is registered."),
    ],
)
def test_all_else_is_refused(nodes, why):
    with pytest.raises(KafkaError) as refused:
        check_assignment(nodes, 1)
    assert refused.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert refused.value.message == f"The manual partition assignment includes {why}"
