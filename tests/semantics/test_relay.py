"""What the relay passes on, counts, and keeps for a while."""

import socket
import struct
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.semantics import relay as relays
from tests.semantics.relay import END_TXN, Relay
from tests.support.patience import IDLE_S


def frame(key: int, version: int, body: bytes = b"x") -> bytes:
    said = struct.pack(">hh", key, version) + body
    return struct.pack(">i", len(said)) + said


@pytest.fixture
def broker() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(IDLE_S)
        yield server


def relay_to(broker: socket.socket, late: float = 0.0) -> Relay:
    relay = Relay(late)
    relay.broker = f"127.0.0.1:{broker.getsockname()[1]}"
    return relay


def client_of(relay: Relay) -> socket.socket:
    host, _, port = relay.address.rpartition(":")
    return socket.create_connection((host, int(port)), IDLE_S)


def received(connection: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size and (block := connection.recv(size - len(found))):
        found += block
    return found


def test_requests_and_answers_pass_and_are_counted(broker: socket.socket) -> None:
    asked = frame(18, 4) + frame(END_TXN, 5)
    with closing(relay_to(broker)) as relay, client_of(relay) as client:
        with broker.accept()[0] as served:
            client.sendall(asked)
            assert received(served, len(asked)) == asked
            served.sendall(b"answer")
            assert received(client, 6) == b"answer"
        assert received(client, 1) == b""
    assert relay.passed == {(18, 4): 1, (END_TXN, 5): 1}
    assert not relay.kept


def test_what_is_kept_arrives_when_its_client_has_gone(
    broker: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relays, "LATE_S", (0.1, 0.1))
    with closing(relay_to(broker, late=1.0)) as relay:
        with client_of(relay) as client:
            client.sendall(frame(END_TXN, 4) + frame(END_TXN, 5))
        with broker.accept()[0] as served:
            wanted = frame(END_TXN, 4) + frame(END_TXN, 5)
            assert received(served, len(wanted)) == wanted
    assert relay.kept == {END_TXN: 1}


def test_a_client_is_sent_away_while_there_is_no_broker() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        relay = relay_to(gone)
    with closing(relay), client_of(relay) as client:
        assert received(client, 1) == b""
