"""A port that is kept is given to nobody else, and its owner listens at it again."""

import errno
import gc
import socket

import pytest

from admin_api.access.exposure import listen
from tests.support.ports import kept_for, nobody


class Owner:
    """Whoever has a port."""


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


def refused(address: str) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port_of(address))).close()
    except ConnectionRefusedError:
        return True
    return False


def test_where_nobody_is_connections_are_refused() -> None:
    with nobody() as address:
        assert refused(address)


def test_its_owner_listens_there_as_often_as_it_wants() -> None:
    owner = Owner()
    address = kept_for(owner)
    for _ in range(2):
        assert refused(address)
        with listen("127.0.0.1", port_of(address)) as server:
            server.listen()
            with socket.create_connection(server.getsockname()) as client:
                accepted, _ = server.accept()
                client.sendall(b"x")
                assert accepted.recv(1) == b"x"
                accepted.close()  # first, so that the port has what it leaves behind
    assert refused(address)


def test_nobody_else_is_given_it_until_its_owner_is_gone() -> None:
    owner = Owner()
    port = port_of(kept_for(owner))
    with socket.socket() as other, pytest.raises(OSError, match="in use") as caught:
        other.bind(("127.0.0.1", port))
    assert caught.value.errno == errno.EADDRINUSE
    del owner
    gc.collect()
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
