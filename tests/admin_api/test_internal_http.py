"""A connection to a part: answers that are whole, or none."""

import asyncio
import socket
import threading

import h11
import pytest

from admin_api.internal_http import (
    PIECE_BYTES,
    PIECES_MAX,
    Answer,
    PartConnection,
    Room,
)
from tests.support.patience import STUCK_S

OK = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
WHOLE = b"2\r\n{}\r\n0\r\nA-Seal: x\r\n\r\n"


@pytest.fixture
def ends():
    """Our end of a connection, and the part's."""
    own, parts = socket.socketpair()
    parts.settimeout(STUCK_S)
    with own, parts:
        yield own, parts


def asked(own, *authorizations):
    """The answers to a question for each header."""

    async def story():
        connection = PartConnection(*await asyncio.open_connection(sock=own), Room())
        try:
            return [await connection.ask("GET", "/a", one) for one in authorizations]
        finally:
            connection.close()

    return asyncio.run(asyncio.wait_for(story(), STUCK_S))


def test_an_answer_has_its_status_headers_bytes_and_trailers(ends):
    own, part = ends
    part.sendall(b"HTTP/1.1 103 Early\r\n\r\n" + OK + WHOLE)
    [answer] = asked(own, "")
    headers, trailers = {b"transfer-encoding": b"chunked"}, {b"a-seal": b"x"}
    assert answer == Answer(200, headers, b"{}", trailers)
    assert part.recv(1 << 16) == b"GET /a HTTP/1.1\r\nHost: part\r\n\r\n"


def test_another_question_may_follow_on_the_connection(ends):
    own, part = ends
    part.sendall(b"HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n" + OK + WHOLE)
    assert [one.status for one in asked(own, "", "Some proof")] == [401, 200]
    assert part.recv(1 << 16).endswith(b"\r\nAuthorization: Some proof\r\n\r\n")


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 20"])
def test_one_that_did_not_begin_is_told_apart(ends, said):
    own, part = ends
    part.sendall(said)
    part.shutdown(socket.SHUT_WR)
    with pytest.raises(ConnectionResetError):
        asked(own, "")


@pytest.mark.parametrize(
    "said",
    [
        OK,
        OK + WHOLE[:-2],
        OK + b"2\r\n{",
        b"HTTP/1.1 200 OK\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{}",
        b"no HTTP\r\n\r\n",
    ],
)
def test_what_was_cut_is_no_answer(ends, said):
    own, part = ends
    part.sendall(said)
    part.shutdown(socket.SHUT_WR)
    with pytest.raises(h11.ProtocolError):
        asked(own, "")


def test_nor_is_one_that_is_too_long(ends, monkeypatch):
    monkeypatch.setattr("admin_api.internal_http.ANSWER_BYTES_MAX", 1)
    own, part = ends
    part.sendall(OK + WHOLE)
    with pytest.raises(h11.ProtocolError, match="more than 1 bytes"):
        asked(own, "")


CROWDED = OK + b"1\r\nx\r\n" * 2 * PIECES_MAX


def test_nor_one_in_so_many_pieces_that_others_would_wait_for_its_parsing(ends):
    own, part = ends
    part.sendall(CROWDED[: 64 << 10])
    with pytest.raises(h11.ProtocolError, match="pieces"):
        asked(own, "")


def test_nor_one_before_which_there_is_no_end_of_others(ends):
    own, part = ends
    part.sendall(b"HTTP/1.1 100 \r\n\r\n" * 2 * PIECES_MAX)
    with pytest.raises(h11.ProtocolError, match="pieces"):
        asked(own, "")


def test_many_pieces_are_taken_where_there_is_something_in_them(ends):
    own, part = ends
    count = 2 * PIECES_MAX
    size = PIECE_BYTES
    said = OK + (b"%x\r\n%s\r\n" % (size, b"x" * size)) * count + b"0\r\n\r\n"
    sender = threading.Thread(target=part.sendall, args=(said,))
    sender.start()
    [answer] = asked(own, "")
    sender.join(STUCK_S)
    assert len(answer.body) == size * count


def test_nor_a_second_one_where_the_part_said_that_it_goes(ends):
    own, part = ends
    part.sendall(
        b"HTTP/1.1 401 No\r\nConnection: close\r\nContent-Length: 0\r\n\r\n" + OK
    )
    with pytest.raises(h11.ProtocolError):
        asked(own, "", "")


class Counted(Room):
    """Knows how many have wanted a place."""

    def __init__(self):
        super().__init__()
        self.wanted = 0

    async def take(self):
        self.wanted += 1
        await super().take()


@pytest.fixture
def others():
    own, parts = socket.socketpair()
    parts.settimeout(STUCK_S)
    with own, parts:
        yield own, parts


def test_while_so_many_answers_are_long_the_next_one_waits(ends, others, monkeypatch):
    monkeypatch.setattr("admin_api.internal_http.LONG_MAX", 1)
    monkeypatch.setattr("admin_api.internal_http.SHORT_BYTES", 1)

    async def story():
        room = Counted()

        async def until_wanted(count):
            while room.wanted < count:
                await asyncio.sleep(0.01)

        connections = []
        for own, part in (ends, others):
            part.sendall(OK + b"2\r\n{}\r\n")
            streams = await asyncio.open_connection(sock=own)
            connections.append(PartConnection(*streams, room))
        first, second = connections
        slow = asyncio.ensure_future(first.ask("GET", "/a"))
        await until_wanted(1)
        others[1].sendall(b"0\r\n\r\n")
        waiting = asyncio.ensure_future(second.ask("GET", "/a"))
        await until_wanted(2)
        assert not waiting.done()
        slow.cancel()
        first.close()
        first.close()  # gives its place back once
        answer = await waiting
        assert room._free.locked()
        second.close()
        return answer

    answer = asyncio.run(asyncio.wait_for(story(), STUCK_S))
    assert answer.body == b"{}"
