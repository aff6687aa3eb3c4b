"""An open plane is asked by names of this machine, and by its own pages."""

import pytest

from admin_api.access.hosts import Hosts
from broker.settings import Settings

OWN = Hosts(Settings(admin="[::1]:8082", admin_hosts="lake.example,Other"))


def headers(*hosts, origin=None):
    found = [(b"host", host.encode()) for host in hosts]
    return found if origin is None else [*found, (b"origin", origin.encode())]


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST:8082",
        "localhost.",
        "a.localhost:1",
        "127.0.0.1:8082",
        "127.8.8.8",
        "[::1]:8082",
        "[::1]",
        "::1",
        "lake.example:8082",
        "other",
    ],
)
def test_a_name_of_this_machine_is_served(host):
    assert OWN.refusal(headers(host)) is None


@pytest.mark.parametrize(
    "host",
    [
        "",
        ":8082",
        "evil.example",
        "evil.example:8082",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "evillocalhost",
        "127.0.0.1@evil.example",
        "evil.example:127.0.0.1",
        "10.0.0.1:8082",
        "[::2]:8082",
        "0.0.0.0",
        "lake.example.evil",
        "localhost, evil.example",
        "127.1",
        "\xff",
    ],
)
def test_any_other_name_is_refused_in_a_sentence(host):
    assert "localhost" in OWN.refusal(headers(host))


def test_there_is_one_host_or_no_service():
    assert OWN.refusal(headers()) is not None
    assert OWN.refusal(headers("localhost", "localhost")) is not None


@pytest.mark.parametrize(
    ("origin", "is_served"),
    [
        ("http://localhost:8082", True),
        ("https://lake.example", True),
        ("http://[::1]:8082", True),
        ("null", False),
        ("", False),
        ("http://evil.example", False),
        ("http://evil.example#localhost", False),
        ("http://localhost@evil.example", False),
        ("file://localhost", False),
    ],
)
def test_pages_of_other_sites_are_not_served(origin, is_served):
    refusal = OWN.refusal(headers("localhost", origin=origin))
    assert (refusal is None) == is_served


def test_without_settings_only_loopback_is_this_machine():
    default = Hosts(Settings())
    assert default.refusal(headers("127.0.0.1:8082")) is None
    assert default.refusal(headers("lake.example")) is not None
