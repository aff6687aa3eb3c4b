"""Alerts are of what others reach."""

import pytest

from admin_api.access.tokens import Role, Token
from admin_api.security.report import is_loopback, report
from broker.settings import AdminTlsSettings, InternalSettings, Settings

ADMIN = Token(id="a", role=Role.ADMIN, created_ms=0, sha256="")


def alerts(found, name):
    return [one.issue for one in found.alerts if one.affected_interface == name]


def test_on_loopback_nothing_is_alarming(tmp_path):
    found = report(
        "127.0.0.1:9092",
        "[::1]:8082",
        Settings(data_dir=tmp_path),
        is_closed=False,
        tokens=None,
    )
    assert not found.alerts
    kafka, admin, internal, of_compactor = found.interfaces
    assert (kafka.name, admin.authentication_method) == ("kafka", "NONE")
    assert internal.authentication_method == "FILE_MODE"
    assert of_compactor.address == str(tmp_path / "run" / "compactor.sock")
    assert found.tokens is None


def test_what_others_reach_is_told_until_it_is_guarded(tmp_path):
    found = report(
        "10.0.0.1:9092",
        "10.0.0.1:8082",
        Settings(
            data_dir=tmp_path,
            admin_tls=AdminTlsSettings(certificate=tmp_path / "pem"),
            internal=InternalSettings(broker="10.0.0.1:1", compactor="127.0.0.1:1"),
        ),
        is_closed=True,
        tokens={"a": ADMIN},
    )
    assert alerts(found, "kafka") == ["NO_TLS", "NO_AUTHN", "NO_AUTHZ"]
    assert "10.0.0.1:9092" in found.alerts[0].description
    assert alerts(found, "admin") == []
    assert alerts(found, "internal") == ["NO_TLS", "NO_AUTHZ"]
    assert alerts(found, "internal of the compactor") == []
    assert found.tokens == {"admin": 1}
    found = report(
        "localhost:1",
        "0.0.0.0:2",
        Settings(data_dir=tmp_path),
        is_closed=False,
        tokens={},
    )
    assert alerts(found, "kafka") == []
    assert alerts(found, "admin") == ["NO_TLS"]


@pytest.mark.parametrize(
    ("address", "is_so"),
    [
        ("127.0.0.9:1", True),
        ("[::1]:1", True),
        ("::1:1", True),
        ("localhost:1", True),
        ("0.0.0.0:1", False),
        ("[::]:1", False),
        ("host:1", False),
        ("x", False),
    ],
)
def test_loopback_is_an_address_of_this_machine_alone(address, is_so):
    assert is_loopback(address) is is_so
