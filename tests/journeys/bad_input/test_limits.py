"""What a peer may cost is bounded, and reaching a bound disturbs nobody else.

The limits of these brokers are small.
"""

import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from broker.protocol.errors import ErrorCode
from broker.protocol.messages.api_versions import ApiVersionsRequest
from broker.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from broker.protocol.messages.describe_groups import DescribeGroupsRequest
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
)
from broker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.patience import IDLE_S, wait_until
from tests.support.peer import Peer, Witness, batch_of, produce_request
from tests.support.process import BrokerPart
from tests.support.wire import frame_of

Both = tuple[BrokerPart, Witness]
Start = Callable[..., Both]


@pytest.fixture(autouse=True)
def nobody_else_notices() -> None:
    """The common broker is not needed here."""


@contextmanager
def started(data_dir: Path, *settings: str) -> Iterator[Both]:
    """A broker that stops in order when all is over, and no handler of it fails."""
    part = BrokerPart(data_dir, *settings)
    part.start()
    try:
        witness = Witness(part.bootstrap)
        witness.goes_on()
        yield part, witness
        witness.close()
        assert part.stop() == 0
        assert "a handler failed" not in part.log.read_text()
    finally:
        part.end()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with ExitStack() as ends:
        yield lambda *settings: ends.enter_context(
            started(tmp_path / "data", *settings)
        )


@pytest.fixture(scope="module")
def modest(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Both]:
    """One for the limits that are not in each other's way."""
    settings = (
        "network.frame_bytes_max=300000",
        "network.pipeline_max=4",
        "broker.message_max_bytes=2000",
        "groups.max_size=2",
        "groups.initial_rebalance_delay_ms=300",
    )
    with started(tmp_path_factory.mktemp("modest") / "data", *settings) as both:
        yield both


def rss(part: BrokerPart) -> int:
    assert part.process is not None
    size: int = psutil.Process(part.process.pid).memory_info().rss
    return size


def test_more_connections_than_allowed_are_cut_off(start: Start) -> None:
    part, witness = start("network.connections_max=5")
    others = [Peer(part.bootstrap) for _ in range(4)]
    for _ in range(20):
        with Peer(part.bootstrap) as refused:
            assert refused.is_closed()
    witness.goes_on()
    for other in others:
        assert other.ask(ApiVersionsRequest("a", "1"), 3).error_code == 0
    others.pop().socket.close()

    def is_taken() -> bool:
        with Peer(part.bootstrap) as one, suppress(ConnectionError):
            return one.ask(ApiVersionsRequest("a", "1"), 3).error_code == 0
        return False

    wait_until(is_taken)


def test_the_largest_request_is_taken_and_a_larger_one_is_not(modest: Both) -> None:
    part, witness = modest
    for excess in (0, 1):
        with Peer(part.bootstrap) as peer:
            whole = frame_of(produce_request(Witness.TOPIC, b""), 9)
            body = whole[4:] + bytes(300_000 + excess - (len(whole) - 4))
            peer.send(struct.pack(">i", len(body)) + body)
            if excess:
                assert peer.is_closed()
            else:
                assert peer.receive()
    witness.goes_on()


def test_a_silent_connection_is_closed_and_one_that_waits_is_not(
    start: Start,
) -> None:
    """The long poll is begun before the other is silent, and ends after it is cut."""
    part, witness = start("network.idle_ms=3000")
    with Peer(part.bootstrap) as waiting:
        asked = FetchTopic(
            Witness.TOPIC, partitions=[FetchPartition(0, fetch_offset=1)]
        )
        longest_ms = int(IDLE_S * 1000)  # the broker ends it after ``idle_ms``
        wait = FetchRequest(max_wait_ms=longest_ms, min_bytes=1, topics=[asked])
        waiting.send(frame_of(wait, 12))
        with Peer(part.bootstrap) as silent:
            assert silent.is_closed()
        assert waiting.receive()
    witness.peer = Peer(part.bootstrap)  # it, too, was silent meanwhile
    witness.goes_on()


def test_a_peer_that_does_not_read_costs_a_bounded_amount(start: Start) -> None:
    part, witness = start("network.unsent_bytes_max=1Mi")
    with Peer(part.bootstrap) as maker:
        maker.create("large")
        for _ in range(20):
            assert maker.produce("large", batch_of(bytes(900_000))).error_code == 0
    asked = FetchTopic("large", partitions=[FetchPartition(0)])
    asked.partitions[0].partition_max_bytes = 20 << 20
    fetch = frame_of(FetchRequest(max_bytes=20 << 20, topics=[asked]), 12)
    before = rss(part)
    peers = [Peer(part.bootstrap) for _ in range(10)]
    for peer in peers:
        peer.socket.settimeout(0.5)
        with suppress(TimeoutError):
            peer.send(fetch * 200)  # 18 MB each
    time.sleep(1)
    witness.goes_on()
    # what is in memory is sent as it lies there; no copy for each of them
    assert rss(part) - before < 200 << 20
    for peer in peers:
        peer.socket.close()
    witness.goes_on()


def test_more_bytes_than_may_be_under_way_wait_for_their_turn(start: Start) -> None:
    part, witness = start("network.inflight_bytes_max=2Mi")
    before = rss(part)
    codes: list[int] = []

    def produce() -> None:
        with Peer(part.bootstrap) as peer:
            frames = [
                frame_of(produce_request("many", batch_of(bytes(900_000))), 9, one)
                for one in range(10)
            ]
            peer.send(*frames)
            for one in range(10):
                answer = peer.receive()
                assert struct.unpack_from(">i", answer) == (one,)
                codes.append(one)

    with Peer(part.bootstrap) as maker:
        maker.create("many")
        threads = [threading.Thread(target=produce) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(codes) == 80
        assert maker.end("many") == 80
    witness.goes_on()
    assert rss(part) - before < 300 << 20


def test_a_long_pipeline_of_slow_requests_is_answered_in_order(modest: Both) -> None:
    part, witness = modest
    asked = FetchTopic(Witness.TOPIC, partitions=[FetchPartition(0, fetch_offset=1)])
    slow = FetchRequest(max_wait_ms=100, min_bytes=1 << 20, topics=[asked])
    with Peer(part.bootstrap) as peer:
        frames = [frame_of(slow, 12, 2 * one) for one in range(12)]
        quick = [
            frame_of(ApiVersionsRequest("a", "1"), 3, 2 * one + 1) for one in range(12)
        ]
        mixed = [each for pair in zip(frames, quick, strict=True) for each in pair]
        peer.send(*mixed)
        found = [struct.unpack_from(">i", peer.receive())[0] for _ in range(24)]
        assert found == list(range(24))
    witness.goes_on()


def test_the_largest_batch_is_the_topics_own_to_say(modest: Both) -> None:
    part, witness = modest
    with Peer(part.bootstrap) as peer:
        assert peer.produce(Witness.TOPIC, batch_of(bytes(2_100))).error_code == (
            ErrorCode.MESSAGE_TOO_LARGE
        )
        config = [CreatableTopicConfig("max.message.bytes", "5000")]
        asked = CreatableTopic("wide", 1, 1, configs=config)
        assert peer.ask(CreateTopicsRequest([asked]), 7).topics[0].error_code == 0
        assert peer.produce("wide", batch_of(bytes(2_100))).error_code == 0
        overhead = len(batch_of(bytes(4_900))) - 4_900
        for excess, code in ((0, 0), (1, ErrorCode.MESSAGE_TOO_LARGE)):
            batch = batch_of(bytes(5_000 - overhead + excess))
            assert len(batch) == 5_000 + excess
            assert peer.produce("wide", batch).error_code == code
    witness.goes_on()


def join(group: str, session_ms: int = 10_000) -> JoinGroupRequest:
    protocol = JoinGroupRequestProtocol("range", b"")
    return JoinGroupRequest(group, session_ms, 10_000, "", None, "consumer", [protocol])


def members(witness: Witness, group: str) -> int:
    """How many the group has now."""
    (found,) = witness.peer.ask(DescribeGroupsRequest([group]), 5).groups
    return len(found.members)


def test_a_group_takes_so_many_members(modest: Both) -> None:
    part, witness = modest
    peers = [Peer(part.bootstrap) for _ in range(3)]
    for count, peer in enumerate(peers, 1):
        peer.send(frame_of(join("crowd"), 3))
        if count < 3:
            wait_until(lambda wanted=count: members(witness, "crowd") == wanted)  # type: ignore[misc]
    version_3 = [peer.receive() for peer in (peers[2], peers[0], peers[1])]
    # correlation id, throttle time, error
    codes = [struct.unpack_from(">iih", answer)[2] for answer in version_3]
    assert codes == [ErrorCode.GROUP_MAX_SIZE_REACHED, 0, 0]
    witness.goes_on()


def test_sessions_outside_the_limits_and_nameless_groups_are_refused(
    modest: Both,
) -> None:
    part, _ = modest
    with Peer(part.bootstrap) as peer:
        for session_ms in (-1, 0, 5_999, 1_800_001, 2**31 - 1):
            answer = peer.ask(join("g", session_ms), 5)
            assert answer.error_code == ErrorCode.INVALID_SESSION_TIMEOUT, session_ms
        assert peer.ask(join(""), 5).error_code == ErrorCode.INVALID_GROUP_ID


def test_thousands_of_partitions_do_not_come_by_mistake(modest: Both) -> None:
    part, witness = modest
    with Peer(part.bootstrap) as peer:
        for count, code in (
            (0, ErrorCode.INVALID_PARTITIONS),
            (-2, ErrorCode.INVALID_PARTITIONS),
            (100_001, ErrorCode.POLICY_VIOLATION),
            (2**31 - 1, ErrorCode.POLICY_VIOLATION),
        ):
            asked = CreatableTopic("many", count, 1)
            answer = peer.ask(CreateTopicsRequest([asked]), 7).topics[0]
            assert answer.error_code == code
        names = [MetadataRequestTopic(name=f"auto-{one}") for one in range(500)]
        answer = peer.ask(MetadataRequest(names), 9)
        assert {topic.error_code for topic in answer.topics} == {0}
    witness.goes_on()
