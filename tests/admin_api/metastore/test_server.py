"""The metastore's socket: who may come, how many, and what they get."""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from admin_api.access.exposure import ExposureRefused
from admin_api.metastore import server
from admin_api.metastore.server import address_of, beside, bind
from tests.support.laked import make_table
from tests.support.metastore import MetastoreClient, asked
from tests.support.patience import IDLE_S, STUCK_S, wait_until


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    make_table(tmp_path, "flights")
    with beside(tmp_path) as address:
        yield address


def test_questions_are_answered_in_their_order(address: str) -> None:
    with closing(MetastoreClient(address)) as client:
        client.socket.sendall(asked("set_ugi", "me")[:9])
        client.socket.sendall(asked("set_ugi", "me")[9:])
        assert client._answer()
        assert client.ask("get_all_tables", "lakelog")[1][0] == [b"flights", b"tables"]
        assert client.ask("get_table", "lakelog", "flights")[1][0][1] == b"flights"


@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\r\n\r\n", asked("shutdown")])
def test_who_asks_for_nothing_more_or_for_nothing_that_is_known_is_let_go(
    address: str, said: bytes
) -> None:
    with closing(MetastoreClient(address)) as client:
        client.socket.sendall(said)
        assert client.hung_up()


def test_there_are_so_many_connections_at_most(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "CONNECTIONS_MAX", 1)
    with closing(MetastoreClient(address)) as first:
        assert first.ask("get_all_databases")
        with closing(MetastoreClient(address)) as second:
            assert second.ask("get_all_databases")
            assert first.hung_up()
    wait_until(lambda: _is_answered(address))


def test_those_who_say_nothing_keep_nobody_out(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor do they push out who has asked, however long ago."""
    monkeypatch.setattr(server, "CONNECTIONS_MAX", 3)
    with ExitStack() as ending:

        def client() -> MetastoreClient:
            return ending.enter_context(closing(MetastoreClient(address)))

        session = client()
        assert session.ask("get_all_databases")
        silent = [client(), client()]
        later = client()
        assert later.ask("get_all_databases")
        assert silent[0].hung_up()
        assert client().ask("get_all_databases")
        assert silent[1].hung_up()
        assert session.ask("get_all_databases")
        assert later.ask("get_all_databases")


def test_those_who_come_at_once_to_a_full_house_do_not_end_each_other(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "CONNECTIONS_MAX", 3)
    monkeypatch.setattr(server, "IDLE_S", 0.0)
    monkeypatch.setattr(server, "FIRST_CALL_S", STUCK_S)  # however slow they come
    with ExitStack() as ending:

        def client() -> MetastoreClient:
            return ending.enter_context(closing(MetastoreClient(address)))

        sessions = [client() for _ in range(3)]
        for session in sessions:
            assert session.ask("get_all_databases")
        newcomers = [client() for _ in range(3)]
        for newcomer in newcomers:
            assert newcomer.ask("get_all_databases")
        assert all(session.hung_up() for session in sessions)


def test_who_is_being_answered_is_not_ended_for_who_comes(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, limit in (("CONNECTIONS_MAX", 1), ("IDLE_S", 0.0), ("FIRST_CALL_S", 0.0)):
        monkeypatch.setattr(server, name, limit)
    begun, goes_on, answer = threading.Event(), threading.Event(), server.answer

    async def slow(*call: Any) -> bytes:
        begun.set()
        assert await asyncio.to_thread(goes_on.wait, IDLE_S)
        return await answer(*call)

    monkeypatch.setattr(server, "answer", slow)
    with closing(MetastoreClient(address)) as asking:
        asking.socket.sendall(asked("get_all_databases"))
        assert begun.wait(IDLE_S)
        with closing(MetastoreClient(address)) as comes:
            assert comes.hung_up()
        goes_on.set()
        assert asking._answer()


@pytest.mark.parametrize("said", [b"", asked("get_all_databases")[:9]])
def test_who_does_not_say_what_he_wants_in_time_is_let_go(
    address: str, monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    monkeypatch.setattr(server, "CALL_S", 0.3)
    with closing(MetastoreClient(address)) as client:
        client.socket.sendall(said)
        assert client.hung_up()


def test_who_has_asked_may_be_silent_but_not_in_the_middle_of_a_call(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(MetastoreClient(address)) as client:
        assert client.ask("get_all_databases")
        monkeypatch.setattr(server, "CALL_S", 0.5)  # of all that is waited for from now
        assert client.ask("get_all_databases")
        time.sleep(1)
        assert client.ask("get_all_databases")
        client.socket.sendall(asked("get_all_databases")[:9])
        assert client.hung_up()


def test_who_does_not_read_is_let_go(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "UNREAD_S", 0.3)
    question = asked("get_config_value", "x", "v" * 500_000)
    with closing(MetastoreClient(address)) as client, pytest.raises(ConnectionError):
        client.socket.sendall(question * 100)


def _is_answered(address: str) -> bool:
    with closing(MetastoreClient(address)) as client:
        try:
            return bool(client.ask("get_all_databases"))
        except (AssertionError, ConnectionError):
            return False


def test_it_ends_with_connections_that_are_open(tmp_path: Path) -> None:
    make_table(tmp_path, "flights")
    with beside(tmp_path) as address:
        client = MetastoreClient(address)
        assert client.ask("get_all_databases")
    with closing(client):
        assert client.hung_up()


def test_others_reach_it_only_if_that_is_said() -> None:
    with pytest.raises(ExposureRefused, match="no password"):
        bind("0.0.0.0:0", insecure=False)
    with bind("0.0.0.0:0", insecure=True) as bound:
        assert address_of(bound).startswith("0.0.0.0:")
    with bind("[::1]:0", insecure=False) as bound:
        assert address_of(bound).startswith("[::1]:")
