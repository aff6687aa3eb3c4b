"""A client for which anything waits moves so much in so long, or is cut off."""

import select
import socket
from types import SimpleNamespace

import pytest
import uvicorn
from uvicorn.server import ServerState

from admin_api import unread
from admin_api.unread import MOVED_BYTES_MIN, UNREAD_S, Connection
from tests.support.confluent import produce_all
from tests.support.patience import STUCK_S


class Timer:
    """Time that passes when a test says so."""

    def __init__(self):
        self.armed = []

    def call_later(self, delay_s, call):
        assert delay_s == UNREAD_S
        handle = SimpleNamespace(call=call, cancel=lambda: self.armed.remove(handle))
        self.armed.append(handle)
        return handle

    def pass_on(self):
        self.armed.pop().call()


class Transport:
    """What a connection asks of its transport."""

    waiting, aborted, limit = 0, False, None

    def set_write_buffer_limits(self, high):
        self.limit = high

    def get_write_buffer_size(self):
        return self.waiting

    def get_extra_info(self, _name):
        return None

    def abort(self):
        self.aborted = True


@pytest.fixture
def connected():
    timer, transport = Timer(), Transport()
    config = uvicorn.Config(lambda: None, log_level="warning")
    config.load()
    connection = Connection(config, ServerState(), {}, timer)
    connection.connection_made(transport)
    assert transport.limit == 0
    transport.waiting = 2 * MOVED_BYTES_MIN
    connection.pause_writing()
    return connection, transport, timer


def test_who_reads_less_than_so_much_is_cut_off(connected):
    _, transport, timer = connected
    transport.waiting -= MOVED_BYTES_MIN
    timer.pass_on()
    assert not transport.aborted
    transport.waiting -= MOVED_BYTES_MIN - 1
    timer.pass_on()
    assert transport.aborted
    assert not timer.armed


def test_who_writes_all_before_he_reads_is_waited_for(connected):
    connection, transport, timer = connected
    connection.data_received(b"POST / HTTP/1.1\r\nHost: plane\r\n")
    for _ in range(3):
        connection._received += MOVED_BYTES_MIN
        timer.pass_on()
        assert not transport.aborted
    timer.pass_on()
    assert transport.aborted


def test_who_has_read_all_has_all_the_time(connected):
    connection, transport, timer = connected
    assert connection.flow.write_paused
    connection.resume_writing()
    assert not connection.flow.write_paused
    assert not timer.armed
    connection.pause_writing()
    connection.connection_lost(ConnectionResetError())
    assert not timer.armed
    assert not transport.aborted


@pytest.mark.parametrize("path", ["records?bytes_max=9000000", "tail?at=0:0"])
def test_what_is_left_unread_keeps_no_connection(plane, address, monkeypatch, path):
    monkeypatch.setattr(unread, "UNREAD_S", 0.05)
    topic = f"left-{path[:4]}"
    plane.create(topic)
    produce_all(plane.bootstrap, topic, [(None, b"v" * 900_000, None, 0)] * 8)
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 14)
        client.settimeout(STUCK_S)
        client.connect(address)
        asked = f"GET /v1/topics/{topic}/{path} HTTP/1.1\r\nHost: plane\r\n\r\n"
        client.sendall(asked.encode())
        ended = select.poll()
        ended.register(client, 0)  # errors are told, unread bytes are not
        assert ended.poll(STUCK_S * 1000)
