"""The metastore's socket: who may come, how many, and what they get."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from admin_api.access.exposure import ExposureRefused
from admin_api.metastore import server
from admin_api.metastore.server import address_of, beside, bind
from tests.support.laked import make_table
from tests.support.metastore import MetastoreClient, asked
from tests.support.patience import wait_until


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
            assert second.hung_up()
    wait_until(lambda: _is_answered(address))


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
