"""An answer that nobody reads is in memory: its reader is in use as long as it is."""

import asyncio
import socket
from contextlib import contextmanager

import pytest

from admin_api.reading import page
from tests.support.confluent import produce_all
from tests.support.patience import STUCK_S, wait_until

RECORDS, VALUE = 8, b"v" * 900_000


@pytest.fixture(scope="module")
def path(plane):
    plane.create("pages")
    produce_all(plane.bootstrap, "pages", [(None, VALUE, None, 0)] * RECORDS)
    return f"/v1/topics/pages/records?bytes_max={16 << 20}&timeout_ms=30000"


@contextmanager
def unreading(address, path):
    """A client that took an answer's first bytes and reads nothing else."""
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 14)
        client.settimeout(STUCK_S)
        client.connect(address)
        asked = f"GET {path} HTTP/1.1\r\nHost: plane\r\nConnection: close\r\n\r\n"
        client.sendall(asked.encode())
        assert client.recv(12) == b"HTTP/1.1 200"
        yield client


def rest(client):
    size = 0
    while part := client.recv(1 << 16):
        size += len(part)
    return size


def test_its_reader_is_free_once_the_client_has_it(plane, address, path, monkeypatch):
    readers = plane.app.state.readers
    monkeypatch.setattr(readers, "_most", 1)
    with unreading(address, path) as client:
        for _ in range(3):
            assert plane.get(path).status_code == 429
        assert rest(client) > RECORDS * len(VALUE)
    wait_until(lambda: readers.open == 0)
    assert plane.get(path + "&limit=1").status_code == 200
    wait_until(lambda: readers.open == 0)


def test_its_reader_is_free_once_the_client_is_gone(plane, address, path):
    with unreading(address, path):
        assert plane.app.state.readers.open == 1
    wait_until(lambda: plane.app.state.readers.open == 0)


def test_a_client_that_reads_nothing_is_left(plane, address, path, monkeypatch):
    monkeypatch.setattr(page, "UNREAD_S", 0.0)
    monkeypatch.setattr(page, "PACE_BYTES_S", 1 << 40)
    with unreading(address, path) as client:
        wait_until(lambda: plane.app.state.readers.open == 0)
        assert rest(client) < RECORDS * len(VALUE)


class Kept:
    """A reader that says whether it was closed."""

    closed = False

    def close(self):
        self.closed = True


def test_a_client_that_takes_a_part_now_and_then_is_left(monkeypatch):
    monkeypatch.setattr(page, "UNREAD_S", 0.5)
    monkeypatch.setattr(page, "PACE_BYTES_S", 1 << 40)
    monkeypatch.setattr(page, "PART_BYTES", 1)
    reader, taken = Kept(), []

    async def send(message):
        taken.append(message)
        await asyncio.sleep(0.01)

    answer = page.Page(b"x" * 100_000, reader)
    asyncio.run(answer({"type": "http"}, None, send))
    assert reader.closed
    assert len(taken) < 100_000
