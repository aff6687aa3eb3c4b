"""A client for which anything waits moves so much in so long, or is cut off."""

import ctypes
import select
import socket
import struct
from contextlib import suppress
from types import SimpleNamespace

import pytest
import uvicorn
from uvicorn.server import ServerState

from admin_api import unread
from admin_api.unread import BRIEF_S, MOVED_BYTES_MIN, UNREAD_S, Connection
from tests.support.confluent import produce_all
from tests.support.patience import STUCK_S, wait_until

ATTACH_FILTER = 26
"""SO_ATTACH_FILTER of Linux."""


class Timer:
    """Time that passes when a test says so."""

    def __init__(self):
        self.armed = []

    def call_later(self, delay_s, call):
        assert delay_s == UNREAD_S
        handle = SimpleNamespace(call=call, cancel=lambda: self.cancel(handle))
        self.armed.append(handle)
        return handle

    def cancel(self, handle):
        if handle in self.armed:
            self.armed.remove(handle)

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

    def close(self):
        pass


@pytest.fixture
def connected():
    timer, transport = Timer(), Transport()
    config = uvicorn.Config(lambda: None, log_level="warning")
    config.load()
    connection = Connection(config, ServerState(), {}, timer)
    connection.connection_made(transport)
    assert transport.limit == 0
    timer.armed.clear()  # of the request's head: it has tests of its own
    transport.waiting = 2 * MOVED_BYTES_MIN
    connection.pause_writing()
    return connection, transport, timer


@pytest.fixture
def asking():
    """A connection over which nothing was asked yet."""
    timer, transport = Timer(), Transport()
    config = uvicorn.Config(lambda: None, log_level="warning")
    config.load()
    connection = Connection(config, ServerState(), {}, timer)
    connection.connection_made(transport)
    return connection, transport, timer


def test_who_does_not_say_what_he_wants_is_cut_off(asking):
    connection, transport, timer = asking
    connection.data_received(b"GET /livez HTTP/1.1\r\nHo")
    timer.pass_on()
    assert transport.aborted
    assert not timer.armed


def test_who_asked_has_all_the_time_until_he_is_answered(asking):
    connection, transport, timer = asking
    connection.cycle = SimpleNamespace(response_complete=False)
    for _ in range(3):
        timer.pass_on()
        assert not transport.aborted
    connection.cycle = SimpleNamespace(response_complete=True)  # another one
    timer.pass_on()
    assert not transport.aborted
    timer.pass_on()
    assert transport.aborted


def test_who_still_reads_an_answer_is_not_taken_for_mute(asking):
    connection, transport, timer = asking
    connection.cycle = SimpleNamespace(response_complete=True)
    transport.waiting = 10 * MOVED_BYTES_MIN
    connection.pause_writing()
    for _ in range(3):
        timer.armed.pop(0).call()  # of the head; that of the pace is armed behind it
        transport.waiting -= MOVED_BYTES_MIN
        timer.armed.pop(0).call()
        assert not transport.aborted
    connection.resume_writing()
    timer.pass_on()
    assert not transport.aborted
    timer.pass_on()
    assert transport.aborted


def test_who_was_just_answered_has_all_the_time_again(asking):
    connection, transport, timer = asking
    connection.cycle = SimpleNamespace(response_complete=False)
    timer.pass_on()
    connection.cycle.response_complete = True
    timer.pass_on()
    assert not transport.aborted
    timer.pass_on()
    assert transport.aborted


def test_a_connection_that_is_lost_is_looked_at_no_more(asking):
    connection, _, timer = asking
    connection.connection_lost(None)
    assert not timer.armed


@pytest.mark.skipif(
    not hasattr(socket, "TCP_KEEPIDLE"), reason="the kernel's times cannot be chosen"
)
def test_who_is_gone_without_a_word_is_asked_for(asking, monkeypatch):
    connection, transport, _ = asking
    with socket.socket() as accepted:
        monkeypatch.setattr(transport, "get_extra_info", {"socket": accepted}.get)
        connection.connection_made(transport)
        assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        idle_s, between_s, times = (
            accepted.getsockopt(socket.IPPROTO_TCP, getattr(socket, name))
            for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT")
        )
        assert idle_s + between_s * times <= 2 * UNREAD_S


@pytest.mark.skipif(
    not hasattr(socket, "TCP_INFO"), reason="the kernel does not say what it hears"
)
def test_a_tail_whose_client_is_gone_without_a_word_ends(plane, address, monkeypatch):
    """It hears nothing, and so acknowledges nothing that is sent to it."""
    monkeypatch.setattr(unread, "UNREAD_S", 0.1)
    monkeypatch.setattr(unread, "UNHEARD_MS", 1_000)
    plane.create("gone")
    readers = plane.app.state.readers
    wait_until(lambda: readers.open == 0)
    with tail(address, "gone") as alive, tail(address, "gone") as gone:
        wait_until(lambda: readers.open == 2)
        hear_nothing(gone)
        produce_all(plane.bootstrap, "gone", [(None, b"v", None, 0)])
        wait_until(lambda: readers.open == 1)
        produce_all(plane.bootstrap, "gone", [(None, b"later", None, 0)])
        heard = b""
        while b"later" not in heard:
            heard += alive.recv(1 << 16)
    wait_until(lambda: readers.open == 0)


def test_a_client_that_reads_nothing_is_heard_all_the_same():
    """Its window is shut; it says so when it is asked."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        accepted, _ = server.accept()
        with client, accepted:
            accepted.setblocking(False)
            with suppress(BlockingIOError):
                while True:
                    accepted.send(bytes(1 << 20))
            assert not unread.is_unheard(accepted)


def tail(address, topic):
    client = socket.create_connection(address, STUCK_S)
    client.sendall(
        f"GET /v1/topics/{topic}/tail HTTP/1.1\r\nHost: plane\r\n\r\n".encode()
    )
    assert b"200 OK" in client.recv(1 << 10)
    return client


def hear_nothing(client):
    """Whatever comes for this socket is dropped, as if its machine were off."""
    drop = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0))
    program = struct.pack("HL", 1, ctypes.addressof(drop))
    client.setsockopt(socket.SOL_SOCKET, ATTACH_FILTER, program)


def test_who_may_ask_again_is_not_taken_for_mute(asking):
    connection, transport, timer = asking
    connection.cycle = SimpleNamespace(response_complete=True)
    connection.timeout_keep_alive_task = object()
    for _ in range(3):
        timer.pass_on()
        assert not transport.aborted
    connection.timeout_keep_alive_task = None  # he began to ask
    timer.pass_on()
    assert not transport.aborted
    timer.pass_on()
    assert transport.aborted


@pytest.mark.parametrize(("others", "kept_s"), [(2, 75), (4, BRIEF_S)])
def test_where_many_are_connected_nobody_is_waited_for_long(
    asking, monkeypatch, others, kept_s
):
    connection, _, timer = asking
    monkeypatch.setattr(unread, "KEPT_MAX", 3)
    connection.connections.update(object() for _ in range(others - 1))
    armed = []
    timer.call_later = lambda delay_s, _call: armed.append(delay_s)
    connection.config.timeout_keep_alive = 75
    connection.transport.is_closing = lambda: False
    connection.transport.resume_reading = lambda: None
    connection.on_response_complete()
    assert armed == [kept_s]


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


def heard(client):
    """All that comes until the plane closes the connection."""
    found = b""
    while some := client.recv(1 << 16):
        found += some
    return found


def test_who_says_no_more_is_answered_all_that_he_asked(plane, address):
    plane.create("halves")
    asked = "GET /v1/topics/halves/records HTTP/1.1\r\nHost: plane\r\n\r\n"
    with socket.create_connection(address, STUCK_S) as client:
        client.sendall(2 * asked.encode())
        client.shutdown(socket.SHUT_WR)
        found = heard(client)
    assert found.count(b"HTTP/1.1 200 ") == 2
    assert found.count(b'"ended_by":"END"') == 2


def test_who_says_no_more_is_told_what_became_of_his_records(plane, address):
    own = plane.create("halved")
    record = b'{"value":{"type":"STRING","data":"v"}}'
    head = f"POST {own.removeprefix('http://plane')}/records HTTP/1.1\r\n"
    chunked = b"Host: plane\r\nTransfer-Encoding: chunked\r\n\r\n"
    body = b"".join(b"%x\r\n%b\r\n" % (len(record), record) for _ in range(3))
    with socket.create_connection(address, STUCK_S) as client:
        client.sendall(head.encode() + chunked + body + b"0\r\n\r\n")
        client.shutdown(socket.SHUT_WR)
        found = heard(client)
    assert [f'"offset":{n}'.encode() in found for n in range(3)] == [True] * 3, found


def test_who_says_no_more_within_a_request_is_left(address):
    with socket.create_connection(address, STUCK_S) as client:
        client.sendall(
            b"POST /v3/clusters HTTP/1.1\r\nHost: plane\r\nContent-Length: 9\r\n\r\n{"
        )
        client.shutdown(socket.SHUT_WR)
        assert b"200" not in heard(client)


def test_a_tail_ends_when_its_client_says_no_more(plane, address):
    """Else each that was left would keep a reader until something is sent to it."""
    plane.create("halved-tail")
    readers = plane.app.state.readers
    wait_until(lambda: readers.open == 0)
    with tail(address, "halved-tail") as client:
        wait_until(lambda: readers.open == 1)
        client.shutdown(socket.SHUT_WR)
        heard(client)
    wait_until(lambda: readers.open == 0)
