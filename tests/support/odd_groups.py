"""Groups that a broker takes and Kafka's own clients would not make.

Of none of them librdkafka can say all: its texts end at a zero, it asks for no offsets
of a group whose id is empty, and it reads assignments as Java's consumers write them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from broker.protocol.messages.delete_groups import DeleteGroupsRequest
from broker.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
)
from broker.protocol.messages.leave_group import LeaveGroupRequest
from broker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from broker.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from tests.support.peer import Peer

FOREIGN: Final = "a-foreign-one"
SESSION_MS: Final = 60_000
_ODD: Final = ("", "twice", "twice\0", FOREIGN, "sound")
_SUBSCRIPTION: Final = b"\x00\x00\x00\x00\x00\x01\x00\x07flights" + b"\xff" * 4


def commit_as(bootstrap: str, group: str, topic: str, offset: int = 0) -> None:
    """A group of this id has committed an offset, whatever the id."""
    at = [OffsetCommitRequestPartition(0, offset)]
    asked = OffsetCommitRequest(
        group, topics=[OffsetCommitRequestTopic(topic, partitions=at)]
    )
    with Peer(bootstrap) as peer:
        [answered] = peer.ask(asked, 7).topics
    assert [one.error_code for one in answered.partitions] == [0]


def join_with(peer: Peer, group: str, assignment: bytes) -> str:
    """A group has a member whose assignment only its own kind can read: its id."""
    protocols = [JoinGroupRequestProtocol("own", _SUBSCRIPTION)]
    joined = peer.ask(
        JoinGroupRequest(
            group, SESSION_MS, SESSION_MS, "", None, "consumer", protocols
        ),
        3,
    )
    mine = [SyncGroupRequestAssignment(joined.member_id, assignment)]
    asked = SyncGroupRequest(
        group, joined.generation_id, joined.member_id, assignments=mine
    )
    assert (joined.error_code, peer.ask(asked, 1).error_code) == (0, 0)
    return str(joined.member_id)


@contextmanager
def odd_groups(bootstrap: str, topic: str) -> Iterator[None]:
    """A group without a name, two that librdkafka takes for one, and a foreign one; and
    ``sound`` behind them all. In the end they are gone."""
    for group in _ODD:
        commit_as(bootstrap, group, topic)
    with Peer(bootstrap) as peer:
        member_id = join_with(peer, FOREIGN, b"all of it")
        yield
        assert peer.ask(LeaveGroupRequest(FOREIGN, member_id), 1).error_code == 0
        deleted = peer.ask(DeleteGroupsRequest(list(_ODD)), 1).results
    assert [one.error_code for one in deleted] == [0] * len(_ODD)
