"""One connection: requests that are bounded, answers that have an end."""

import asyncio
import socket
from hashlib import sha256

import h11
import pytest

from broker.runtime.process.internal_http import (
    HEAD_BYTES_MAX,
    Asked,
    HttpConnection,
)
from tests.support.patience import STUCK_S

GET = b"GET /some?x=1 HTTP/1.1\r\nHost: part\r\n"


@pytest.fixture
def ends():
    """Our end of a connection, and the asker's."""
    own, askers = socket.socketpair()
    askers.settimeout(STUCK_S)
    with own, askers:
        yield HttpConnection(own, STUCK_S), askers


async def parts(*given):
    for part in given:
        yield part


@pytest.mark.parametrize(
    ("headers", "authorization"),
    [
        (b"", ""),
        (b"Authorization: a b\r\n", "a b"),
        (b"authorization: \xff\r\n", "\xff"),
        (b"Authorization: a\r\nAuthorization: a\r\n", ""),
    ],
)
def test_a_request_is_what_is_asked_and_one_header(ends, headers, authorization):
    connection, asker = ends
    asker.sendall(GET + headers + b"\r\n")
    asked = asyncio.run(connection.request())
    assert asked == Asked("GET", "/some?x=1", authorization)


@pytest.mark.parametrize(
    ("sent", "error"),
    [
        (b"", ConnectionAbortedError),
        (GET, h11.ProtocolError),
        (GET + b"Content-Length: 1\r\n\r\nx", ConnectionAbortedError),
        (b"\x16\x03\x01\r\n\r\n", h11.ProtocolError),
        (b"GET / HTTP/1.1\r\n\r\n", h11.ProtocolError),
        (GET + b"X: " + b"x" * HEAD_BYTES_MAX, h11.ProtocolError),
    ],
)
def test_anything_else_is_none(ends, sent, error):
    connection, asker = ends
    asker.sendall(sent)
    asker.shutdown(socket.SHUT_WR)
    with pytest.raises(error):
        asyncio.run(connection.request())


def test_after_a_challenge_another_request_may_follow_and_after_a_refusal_none(ends):
    connection, asker = ends

    async def story():
        await connection.request()
        await connection.challenge("Some number")
        await connection.request()
        await connection.refuse()

    asker.sendall(2 * (GET + b"\r\n"))
    asyncio.run(story())
    said = asker.recv(1 << 16)
    assert said.count(b"HTTP/1.1 401 ") == 2
    assert said.count(b"WWW-Authenticate: Some number\r\n") == 1
    assert said.endswith(b"Connection: close\r\n\r\n")


def test_an_answer_comes_part_by_part_and_its_seal_is_of_all_of_it(ends):
    connection, asker = ends
    seen = []

    async def rows():
        yield b"one\n"
        seen.append(asker.recv(1 << 16))
        yield b"two\n"

    def seal(status, digest):
        assert digest == sha256(b"one\ntwo\n").hexdigest()
        return f"seal of {status}"

    async def story():
        await connection.request()
        await connection.answer(200, rows(), seal)

    asker.sendall(GET + b"\r\n")
    asyncio.run(story())
    assert seen[0].endswith(b"\r\n\r\n4\r\none\n\r\n")
    rest = b"4\r\ntwo\n\r\n0\r\nLakelog-Seal: seal of 200\r\n\r\n"
    assert asker.recv(1 << 16) == rest


def test_one_without_a_seal_has_an_end_all_the_same(ends):
    connection, asker = ends

    async def story():
        await connection.request()
        await connection.answer(404, parts(), lambda *_: "")

    asker.sendall(GET + b"\r\n")
    asyncio.run(story())
    said = asker.recv(1 << 16)
    assert said.startswith(b"HTTP/1.1 404 ")
    assert said.endswith(b"\r\n\r\n0\r\n\r\n")


def test_who_takes_nothing_is_not_waited_for():
    own, greedy = socket.socketpair()

    async def story():
        connection = HttpConnection(own, 0.05)
        await connection.request()
        await connection.answer(200, parts(b"x" * (16 << 20)), lambda *_: "")

    with own, greedy:
        greedy.sendall(GET + b"\r\n")
        with pytest.raises(TimeoutError):
            asyncio.run(story())
