"""A broker that is not there is known soon; one that is slow is waited for."""

import asyncio
import socket

import pytest
from confluent_kafka import KafkaError, KafkaException

from admin_api import refusals
from admin_api.refusals import is_refused, unless_refused
from tests.support.patience import IDLE_S
from tests.support.ports import nobody

SOON_S = 0.02


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(refusals, "LOOK_S", SOON_S)


async def never():
    await asyncio.Event().wait()


async def after(delay_s):
    await asyncio.sleep(delay_s)
    return "answered"


def test_where_nobody_listens_it_is_said_soon():
    with nobody() as address, pytest.raises(KafkaException) as refused:
        asyncio.run(unless_refused(never(), address))
    assert refused.value.args[0].code() == KafkaError._TRANSPORT
    assert refused.value.args[0].str() == "connections are refused"


def test_an_answer_that_comes_before_is_given():
    with nobody() as address:
        assert asyncio.run(unless_refused(after(0), address)) == "answered"


def test_whoever_listens_is_waited_for():
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        assert not asyncio.run(is_refused(address))
        found = asyncio.run(unless_refused(after(6 * SOON_S), address))
    assert found == "answered"


@pytest.mark.parametrize(
    ("hosts", "refused"),
    [
        (("127.0.0.2",), True),
        (("127.0.0.1",), False),
        (("127.0.0.2", "127.0.0.3"), True),
        (("127.0.0.2", "127.0.0.1"), False),
        (("255.255.255.255", "127.0.0.2"), True),
        (("255.255.255.255",), False),
    ],
)
def test_a_name_refuses_if_nobody_listens_at_any_of_its_addresses(
    monkeypatch, hosts, refused
):
    """As localhost, which is ::1 and 127.0.0.1 on most machines."""

    def addresses(_, port, *__, **___):
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (h, port)) for h in hosts]

    monkeypatch.setattr(refusals, "LOOK_S", IDLE_S)
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setattr(socket, "getaddrinfo", addresses)
        address = f"name:{server.getsockname()[1]}"
        assert asyncio.run(is_refused(address)) is refused


@pytest.mark.parametrize("address", ["localhost", "nowhere.invalid:9", ""])
def test_what_is_no_address_is_not_refused(address):
    assert not asyncio.run(is_refused(address))


def test_what_asking_raises_is_raised():
    async def fails():
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "too late"))

    with pytest.raises(KafkaException, match="too late"):
        asyncio.run(unless_refused(fails(), "127.0.0.1:9"))
