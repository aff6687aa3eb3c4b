"""A broker that was stopped for longer than a session does not throw members out."""

import signal
import struct
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


def joined(peer: Peer) -> HeartbeatRequest:
    """A member of a group of its own; its heartbeat."""
    protocols = [JoinGroupRequestProtocol("range", b"")]
    join = JoinGroupRequest("g", SESSION_MS, 60_000, "", None, "consumer", protocols)
    answer = peer.ask(join, 3)
    assert answer.error_code == 0
    generation, member = answer.generation_id, answer.member_id
    assigned = [SyncGroupRequestAssignment(member, b"x")]
    sync = SyncGroupRequest("g", generation, member, assignments=assigned)
    assert peer.ask(sync, 3).error_code == 0
    return HeartbeatRequest("g", generation, member)


@pytest.mark.parametrize("late_s", [0.0, 0.3], ids=["in the pause", "just after it"])
def test_a_heartbeat_counts_that_was_sent(part: BrokerPart, late_s: float) -> None:
    assert part.process is not None
    with Peer(part.bootstrap) as peer:
        heartbeat = joined(peer)
        assert peer.ask(heartbeat, 3).error_code == 0
        part.process.send_signal(signal.SIGSTOP)
        try:
            if not late_s:
                peer.send(frame_of(heartbeat, 3))
            time.sleep(PAUSE_S)
        finally:
            part.process.send_signal(signal.SIGCONT)
        if late_s:  # it was on its way
            time.sleep(late_s)
            peer.send(frame_of(heartbeat, 3))
        frame = peer.receive()
        _, position = decode_response_head(frame, 12, 3)
        assert response_decoder(12, 3)(frame, position).error_code == 0
        assert struct.unpack_from(">i", frame) == (1,)


def test_a_member_that_went_in_the_pause_is_noticed_later(part: BrokerPart) -> None:
    assert part.process is not None
    describe = DescribeGroupsRequest(["g"])
    with Peer(part.bootstrap) as peer:
        heartbeat = joined(peer)
        part.process.send_signal(signal.SIGSTOP)
        time.sleep(PAUSE_S)
        part.process.send_signal(signal.SIGCONT)
        wait_until(lambda: not peer.ask(describe, 5).groups[0].members)
        code = peer.ask(heartbeat, 3).error_code
        assert code == ErrorCode.UNKNOWN_MEMBER_ID
