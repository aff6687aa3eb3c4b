"""A part's name is looked up where nobody else waits for it."""

import asyncio
import errno
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from admin_api.internal_names import UNUSABLE, Names
from tests.support.patience import STUCK_S


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0)) as bound:
        yield bound.getsockname()[1]


def found(*addresses):
    """A look-up that finds these."""

    def look_up(_host, port, **_):
        kind = socket.SOCK_STREAM
        return [(socket.AF_INET, kind, 6, "", (one, port)) for one in addresses]

    return look_up


def connected(host, port):
    """The address that the connection is to."""

    async def story():
        _, writer = await Names().connected(host, port)
        there = writer.get_extra_info("peername")
        writer.transport.abort()
        return there[0]

    return asyncio.run(asyncio.wait_for(story(), STUCK_S))


def test_a_name_or_an_address_is_connected_to(listener):
    assert connected("127.0.0.1", listener) == "127.0.0.1"
    assert connected("localhost", listener) == "127.0.0.1"


def test_the_next_address_is_tried_where_one_takes_nobody(listener, monkeypatch):
    look_up = found("127.0.0.2", "127.0.0.1", "127.0.0.1")
    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    assert connected("part", listener) == "127.0.0.1"


def failing(**failures):
    """Connections to these hosts fail so, others as they do."""
    connect = asyncio.open_connection

    async def connected_or_not(host, port):
        if host in failures:
            raise OSError(failures[host], "as it is told")
        return await connect(host, port)

    return connected_or_not


REFUSING = ("127.0.0.2", "127.0.0.3")


@pytest.mark.parametrize("unusable", UNUSABLE)
def test_nobody_listens_only_where_no_address_says_otherwise(
    listener, monkeypatch, unusable
):
    failures = failing(denied=errno.EACCES, unusable=unusable)
    monkeypatch.setattr(asyncio, "open_connection", failures)
    for addresses, told in (
        (REFUSING, errno.ECONNREFUSED),
        (("denied", *REFUSING), errno.EACCES),
        ((*REFUSING, "denied", "unusable"), errno.EACCES),
        (("unusable", *REFUSING), errno.ECONNREFUSED),
        ((*REFUSING, "unusable"), errno.ECONNREFUSED),
        (("unusable",), unusable),
    ):
        monkeypatch.setattr(socket, "getaddrinfo", found(*addresses))
        with pytest.raises(OSError) as error:
            connected("part", listener)
        assert error.value.errno == told
    monkeypatch.setattr(socket, "getaddrinfo", found("unusable", "127.0.0.1"))
    assert connected("part", listener) == "127.0.0.1"


@pytest.mark.parametrize("name", ["x" * 70 + ".test", "a..b"])
def test_what_is_no_name_is_an_error_of_the_system(name):
    with pytest.raises(OSError, match="no name of a host"):
        connected(name, 1)


def test_a_look_up_that_hangs_holds_no_thread_of_others(listener, monkeypatch):
    asked, answered = threading.Event(), threading.Event()

    def hanging(*arguments, **named):
        asked.set()
        answered.wait(STUCK_S)
        return found("127.0.0.1")(*arguments, **named)

    monkeypatch.setattr(socket, "getaddrinfo", hanging)

    async def story():
        shared = ThreadPoolExecutor(1)
        asyncio.get_running_loop().set_default_executor(shared)
        names = Names()
        asking = [
            asyncio.ensure_future(names.connected("part", listener)) for _ in range(3)
        ]
        while not asked.is_set():
            await asyncio.sleep(0.01)
        assert await asyncio.to_thread(lambda: "free") == "free"
        answered.set()
        for _, writer in await asyncio.gather(*asking):
            writer.transport.abort()

    asyncio.run(asyncio.wait_for(story(), STUCK_S))
