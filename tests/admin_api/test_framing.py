"""Requests that say in two ways where they end, or that cannot be read at all, on the
plane's own socket."""

import json
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
    connection = Framed()
    connection.receive_data(HEAD + lengths + b"\r\n" + body)
    assert isinstance(connection.next_event(), h11.Request)
    assert connection.next_event().data == b"{}"
    assert isinstance(connection.next_event(), h11.EndOfMessage)


def problem_in(found):
    """The status of the only answer, and its body, which is as long as it says."""
    head, _, body = found.partition(b"\r\n\r\n")
    lines = head.decode().lower().split("\r\n")
    assert "content-type: application/json" in lines
    assert "connection: close" in lines
    assert f"content-length: {len(body)}" in lines
    return int(head.split()[1]), json.loads(body)


LAST = b"GET /v3/clusters HTTP/1.1\r\nHost: plane\r\nConnection: close\r\n\r\n"
LONG = b"X-Long: " + b"x" * 8_000 + b"\r\n"


@pytest.mark.parametrize(
    ("sent", "status", "words"),
    [
        (HEAD + LONG * 25 + b"\r\n", 431, "16384 bytes"),
        (HEAD + LONG * 2 + b"X-Long: " + b"x" * 380 + b"\r\n\r\n", 431, "16384 bytes"),
        (HEAD + b"X-Long: " + b"x" * 200_000, 431, "16384 bytes"),
        (b"GET /" + b"x" * 200_000 + b" HTTP/1.1\r\nHost: plane\r\n\r\n", 431, "16384"),
        (b"\x16\x03\x01 what TLS says\r\n\r\n", 400, "request line"),
        (b"GET /livez HTTP/1.1\r\n\r\n", 400, "Host"),
        (HEAD + b"a b: c\r\n\r\n", 400, "header"),
        (HEAD + b"Content-Length: 1\r\n" + CHUNKED + b"\r\n", 400, "Transfer-Encoding"),
    ],
)
def test_what_cannot_be_read_is_told_in_the_shape_of_all_errors(
    address, sent, status, words
):
    found, body = problem_in(answered(address, sent))
    assert (found, body["error_code"]) == (status, status)
    assert set(body) == {"error_code", "message"}
    assert words in body["message"]


def test_a_body_that_breaks_while_it_is_answered_ends_the_connection(
    plane, address, caplog
):
    plane.create("framed")
    url = f"{plane.cluster}/topics/framed/records".replace("http://plane", "")
    record = b'{"value": {"type": "STRING", "data": "v"}}'
    head = f"POST {url} HTTP/1.1\r\nHost: plane\r\nContent-Type: application/json\r\n"
    with socket.create_connection(address, STUCK_S) as client:
        client.sendall(head.encode() + CHUNKED + b"\r\n")
        client.sendall(b"%x\r\n%s\r\n" % (len(record), record))
        found = b""
        while b'"offset"' not in found:
            found += client.recv(1 << 16)
        client.sendall(b"no length\r\n")
        while some := client.recv(1 << 16):
            found += some
    assert found.count(b"HTTP/1.1") == 1, found
    assert not [one for one in caplog.records if one.exc_info]


@pytest.mark.parametrize("lengths", [b"", b"Content-Length: 1\r\n"])
def test_a_head_request_that_breaks_is_answered_without_a_body(
    address, caplog, lengths
):
    sent = b"HEAD /livez HTTP/1.1\r\nHost: plane\r\n" + lengths + CHUNKED
    found = answered(address, sent + b"\r\nno length\r\n")
    assert found.startswith(b"HTTP/1.1 400 ")
    assert found.endswith(b"\r\n\r\n")
    assert not [one for one in caplog.records if one.exc_info]


def test_what_is_no_request_behind_a_head_is_told_with_a_body(address):
    head = b"HEAD /livez HTTP/1.1\r\nHost: plane\r\n\r\n"
    found = answered(address, head + b"no request\r\n\r\n")
    assert found.startswith(b"HTTP/1.1 405 ")
    status, body = problem_in(found.partition(b"\r\n\r\n")[2])
    assert (status, body["error_code"]) == (400, 400)


@pytest.mark.parametrize("path", [b"/livez", b"/v3/clusters"])
def test_whoever_answers_a_request_that_breaks_has_nobody_to_answer(
    address, caplog, path
):
    sent = b"GET " + path + b" HTTP/1.1\r\nHost: plane\r\n" + CHUNKED
    with socket.create_connection(address, STUCK_S) as client:
        client.sendall(sent + b"\r\nno length\r\n")
        found = b""
        while some := client.recv(1 << 16):
            found += some
        answered(address, LAST)  # whoever was before it has had his turn
    assert problem_in(found)[0] == 400
    assert not [one for one in caplog.records if one.exc_info]
