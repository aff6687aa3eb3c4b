"""What is no frame, no request or no version that we serve."""

import random
import struct
import threading
from contextlib import suppress

import pytest

from broker.dispatch.registry import Registry
from broker.protocol.api_keys import ApiKey
from broker.protocol.errors import ErrorCode
from broker.protocol.frames import encode_request_head
from broker.protocol.messages.api_versions import ApiVersionsRequest
from tests.support.peer import Peer, Witness
from tests.support.process import BrokerPart
from tests.support.wire import frame_of

SERVED = Registry.discover().by_key
INT32_MAX = 2**31 - 1


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


@pytest.mark.parametrize(
    "noise",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.9\r\n",
        bytes.fromhex("16030100c8010000c40303") + bytes(200),  # the hello of TLS
        b"\0\0\0\x10" + b"\xff" * 16,
        b"\0\0\0\x08" + bytes(8) + b"\xff" * 100,
        random.Random(1).randbytes(100_000),
    ],
    ids=["http", "ssh", "tls", "ones", "zeros", "random"],
)
def test_garbage_closes_the_connection(peer: Peer, noise: bytes) -> None:
    peer.send(noise)
    assert peer.is_closed()


@pytest.mark.parametrize(
    "length", [-1, -(2**31), 0, 1, 7, (100 << 20) + 1, INT32_MAX, 0x47455420]
)
def test_a_length_that_no_request_has_closes_it_at_once(
    broker: BrokerPart, peer: Peer, length: int
) -> None:
    peer.send(struct.pack(">i", length))
    assert peer.is_closed()
    why = "an HTTP request" if length == 0x47455420 else f"a request of {length} bytes"
    assert why in broker.log.read_text()  # and not for being late


def test_half_a_frame_is_given_up(broker: BrokerPart, witness: Witness) -> None:
    whole = frame_of(ApiVersionsRequest("a", "1"), 3)
    peers = [Peer(broker.bootstrap) for _ in whole]
    for cut, peer in enumerate(peers, 1):
        peer.send(whole[:cut])
        if cut % 2:
            peer.socket.close()
    witness.goes_on()
    waiting = peers[1 : len(whole) - 1 : 2]
    assert waiting
    assert all(peer.is_closed() for peer in waiting)
    for peer in peers:
        peer.socket.close()


def test_a_frame_may_come_byte_by_byte(peer: Peer) -> None:
    for byte in frame_of(ApiVersionsRequest("a", "1"), 3):
        peer.send(bytes([byte]))
    assert peer.receive()


@pytest.mark.parametrize("claim", [100 << 20, (64 << 20) - 4, (4 << 20) - 4])
def test_large_claims_cost_their_peers_not_us(
    broker: BrokerPart, witness: Witness, claim: int
) -> None:
    peers = [Peer(broker.bootstrap) for _ in range(40)]
    for peer in peers:
        peer.send(struct.pack(">i", claim), bytes(70_000))
    for _ in range(3):
        witness.goes_on(size=200_000)
    assert any(peer.is_closed() for peer in peers)
    for peer in peers:
        peer.socket.close()


@pytest.mark.parametrize("key", [4, 7, 17, 52, 62, 71, 94, 95, 1000, -1, 32767])
def test_an_api_that_is_not_served_closes_the_connection(peer: Peer, key: int) -> None:
    peer.send(frame(struct.pack(">hhih", key, 0, 1, -1) + bytes(8)))
    assert peer.is_closed()


@pytest.mark.parametrize("key", sorted(SERVED), ids=lambda key: ApiKey(key).name)
def test_a_version_that_is_not_served_closes_the_connection(
    broker: BrokerPart, key: int
) -> None:
    served = SERVED[key]
    for version in (-1, served.first_version - 1, served.last_version + 1, 32767):
        if key == ApiKey.API_VERSIONS:
            continue  # it has an answer even then
        with Peer(broker.bootstrap) as peer:
            peer.send(frame(struct.pack(">hhih", key, version, 1, -1) + bytes(16)))
            assert peer.is_closed(), version


@pytest.mark.parametrize("version", [5, 99, 32767, -1])
def test_api_versions_answers_a_version_it_does_not_know(
    peer: Peer, version: int
) -> None:
    peer.send(frame(struct.pack(">hhi", 18, version, 77) + b"\xff" * 40))
    answer = bytes(peer.receive())
    # correlation id, error 35, and the one entry: 18 from 0 to 4 (KIP-511)
    assert answer == struct.pack(">ihihhh", 77, 35, 1, 18, 0, 4)
    assert peer.ask(ApiVersionsRequest("a", "1"), 4).error_code == 0


def test_a_client_that_has_no_proper_name_is_refused(peer: Peer) -> None:
    answer = peer.ask(ApiVersionsRequest("-bad name-", "1"), 3)
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert peer.ask(ApiVersionsRequest("good", "1"), 3).error_code == 0


BODIES = {
    "nothing": b"",
    "zeros": bytes(64),
    "ones": b"\xff" * 64,
    "largest counts": struct.pack(">i", INT32_MAX) * 16,
    "largest strings": struct.pack(">h", 32767) * 32,
    "endless varints": b"\x80" * 64,
    "compact counts": b"\xff\xff\xff\xff\x07" * 12,
}


@pytest.mark.parametrize("key", sorted(SERVED), ids=lambda key: ApiKey(key).name)
def test_any_body_is_answered_or_closes_the_connection(
    broker: BrokerPart, key: int
) -> None:
    """Counts, lengths and strings beyond the frame among them, in each version."""
    chance = random.Random(key)
    served = SERVED[key]
    for version in range(served.first_version, served.last_version + 1):
        bodies = [*BODIES.values(), *(chance.randbytes(40) for _ in range(5))]
        for body in bodies:
            head = encode_request_head(key, version, 7, "x")
            ids = ids_answered(broker, frame(head + body))
            assert ids in ([], [7], [7, 8], [8]), (version, body)


def ids_answered(broker: BrokerPart, request: bytes) -> list[int]:
    """Correlation ids of all answers to a request and to a good one behind it (8).

    Not both are answered if the first closes the connection, or is a produce that
    wants no answer.
    """
    ids: list[int] = []
    with Peer(broker.bootstrap) as peer:
        peer.send(request, frame_of(ApiVersionsRequest("a", "1"), 3, 8))
        with suppress(ConnectionError):
            while 8 not in ids:
                ids += struct.unpack_from(">i", peer.receive())
    return ids


def test_millions_of_tags_and_elements_are_not_believed(broker: BrokerPart) -> None:
    def large(version: int, body: bytes) -> bytes:
        return frame(encode_request_head(18, version, 1, "x")[:-1] + body)

    count = b"\xff\xff\xff\x7f"  # 2^28 - 1
    for body in (count, count + bytes(4 << 20), count + b"\1\0" * (1 << 20)):
        with Peer(broker.bootstrap) as peer:
            peer.send(large(3, body))
            assert peer.is_closed()
    # Metadata of two million topics, each a name of no characters
    with Peer(broker.bootstrap) as peer:
        head = encode_request_head(3, 1, 1, "x")
        peer.send(frame(head + struct.pack(">i", 2 << 20) + bytes(4 << 20)))
        assert peer.is_closed()


def test_a_million_requests_of_nothing_are_answered(peer: Peer) -> None:
    """A pipeline as long as the socket takes, read only afterwards."""
    whole = frame_of(ApiVersionsRequest("a", "1"), 3)
    sender = threading.Thread(target=peer.send, args=(whole * 20_000,))
    sender.start()
    for _ in range(20_000):
        assert peer.receive()
    sender.join()
