"""Replicas that a client chooses for a partition: this node alone can be chosen.

Source: ``ReplicationControlManager.validateManualPartitionAssignment``, whose order of
checks and whose words these are.
"""

from collections.abc import Sequence

from broker.protocol.errors import ErrorCode, KafkaError

_SAYS = "The manual partition assignment includes"


def check_assignment(nodes: Sequence[int], node_id: int) -> None:
    """Raise INVALID_REPLICA_ASSIGNMENT unless ``nodes`` is this node."""
    if not nodes:
        raise _refused(f"{_SAYS} an empty replica list.")
    named = set[int]()
    for node in sorted(nodes):
        if node != node_id:
            raise _refused(f"{_SAYS} broker {node}, but no such broker is registered.")
        if node in named:
            raise _refused(f"{_SAYS} the broker {node} more than once.")
        named.add(node)


def _refused(why: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, why)
