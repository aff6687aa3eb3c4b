"""Requests that say in two ways where they end, on the plane's own socket."""

import socket

import h11
import pytest

from admin_api.framing import Framed
from tests.support.patience import STUCK_S

HEAD = b"POST /v3/clusters HTTP/1.1\r\nHost: plane\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
SMUGGLED = b"GET /livez HTTP/1.1\r\nHost: plane\r\n\r\n"


def answered(address, sent):
    """All that comes until the plane closes the connection."""
    with socket.create_connection(address, STUCK_S) as client:
        client.sendall(sent)
        found = b""
        while some := client.recv(1 << 16):
            found += some
        return found


@pytest.mark.parametrize(
    "lengths",
    [
        b"Content-Length: 5\r\n" + CHUNKED,
        CHUNKED + b"Content-Length: 5\r\n",
        b"content-length: 0\r\ntransfer-encoding: Chunked\r\n",
        b"Content-Length: 5\r\nContent-Length: 6\r\n",
        b"Content-Length: 5, 6\r\n",
    ],
)
def test_who_says_twice_where_a_request_ends_is_answered_400_and_left(address, lengths):
    sent = HEAD + lengths + b"\r\n0\r\n\r\n" + SMUGGLED
    found = answered(address, sent)
    assert found.startswith(b"HTTP/1.1 400 ")
    assert b"connection: close" in found.lower()
    assert found.count(b"HTTP/1.1") == 1, found  # what came behind it is no request


def test_what_was_asked_before_is_answered_before(address):
    bad = HEAD + b"Content-Length: 5\r\n" + CHUNKED + b"\r\n"
    found = answered(address, SMUGGLED + bad)
    assert found.startswith(b"HTTP/1.1 200 ")
    assert found.count(b"HTTP/1.1 400 ") == 1


@pytest.mark.parametrize(
    ("lengths", "body"),
    [
        (CHUNKED, b"2\r\n{}\r\n0\r\n\r\n"),
        (b"Content-Length: 2\r\n", b"{}"),
        (b"Content-Length: 2\r\nContent-Length: 2\r\n", b"{}"),
    ],
)
def test_who_says_it_in_one_way_is_read(lengths, body):
    connection = Framed(h11.SERVER)
    connection.receive_data(HEAD + lengths + b"\r\n" + body)
    assert isinstance(connection.next_event(), h11.Request)
    assert connection.next_event().data == b"{}"
    assert isinstance(connection.next_event(), h11.EndOfMessage)
