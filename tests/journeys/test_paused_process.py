"""A broker that was stopped for longer than a session does not throw members out."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.protocol.codec import response_decoder
from broker.protocol.errors import ErrorCode
from broker.protocol.frames import decode_response_head
from broker.protocol.messages.describe_groups import DescribeGroupsRequest
from broker.protocol.messages.heartbeat import HeartbeatRequest
from broker.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
)
from broker.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from tests.support.patience import wait_until
from tests.support.peer import Peer
from tests.support.process import BrokerPart
from tests.support.wire import frame_of

SESSION_MS = 6_000
"""Long beside what a busy machine may hold up either side."""
PAUSE_S = 1.2 * SESSION_MS / 1000


@pytest.fixture
def part(tmp_path: Path) -> Iterator[BrokerPart]:
    part = BrokerPart(tmp_path / "data", "groups.initial_rebalance_delay_ms=0")
    part.start()
    yield part
    part.end()


def joined(peer: Peer, group: str) -> HeartbeatRequest:
    """A member of a group of its own; its heartbeat, once it was heard."""
    protocols = [JoinGroupRequestProtocol("range", b"")]
    join = JoinGroupRequest(group, SESSION_MS, 60_000, "", None, "consumer", protocols)
    answer = peer.ask(join, 3)
    assert answer.error_code == 0
    generation, member = answer.generation_id, answer.member_id
    assigned = [SyncGroupRequestAssignment(member, b"x")]
    sync = SyncGroupRequest(group, generation, member, assignments=assigned)
    assert peer.ask(sync, 3).error_code == 0
    heartbeat = HeartbeatRequest(group, generation, member)
    assert peer.ask(heartbeat, 3).error_code == 0
    return heartbeat


def answered(peer: Peer) -> int:
    """The code of the answer to a heartbeat that was sent."""
    frame = peer.receive()
    correlation_id, position = decode_response_head(frame, 12, 3)
    assert correlation_id == 1
    return response_decoder(12, 3)(frame, position).error_code


@pytest.mark.shared_out("restarts", 4)
def test_a_pause_is_not_the_members(part: BrokerPart) -> None:
    """Heartbeats count that were sent in it, or just after it, since they were on their
    way; a member that went in it is noticed, later."""
    assert part.process is not None
    peers = [Peer(part.bootstrap) for _ in range(3)]
    in_it, after_it, gone = peers
    sent, late, never = [joined(peer, f"g{n}") for n, peer in enumerate(peers)]
    part.process.send_signal(signal.SIGSTOP)
    try:
        in_it.send(frame_of(sent, 3))
        time.sleep(PAUSE_S)
    finally:
        part.process.send_signal(signal.SIGCONT)
    time.sleep(0.3)
    after_it.send(frame_of(late, 3))
    assert (answered(in_it), answered(after_it)) == (0, 0)
    asked = DescribeGroupsRequest([never.group_id])
    wait_until(lambda: not gone.ask(asked, 5).groups[0].members)
    assert gone.ask(never, 3).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    for peer in peers:
        peer.socket.close()
