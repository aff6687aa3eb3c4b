"""When what opens the plane expires."""

import ssl
from pathlib import Path

import pytest

from admin_api.access.tokens import Role, Tokens
from admin_api.metrics.expiry import expires_s, expiry
from broker.settings import AdminTlsSettings, Settings

ACCESS = Path(__file__).parents[1] / "access"
NOW_MS = 1_000_000


def shown(settings):
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in expiry(settings, NOW_MS)
        for sample in family.samples
    }


@pytest.mark.parametrize("name", ["localhost.pem", "renewed.pem"])
def test_a_certificate_expires_when_openssl_says_so(name):
    said = ssl._ssl._test_decode_cert(str(ACCESS / name))["notAfter"]
    assert expires_s((ACCESS / name).read_text()) == ssl.cert_time_to_seconds(said)


@pytest.mark.parametrize("pem", ["", "-----BEGIN CERTIFICATE-----\nMAA=\n"])
def test_what_is_no_certificate_is_no_certificate(pem):
    with pytest.raises((ValueError, IndexError)):
        expires_s(pem)


def test_the_certificate_that_is_set_is_shown(tmp_path):
    tls = AdminTlsSettings(certificate=ACCESS / "localhost.pem")
    [(name, value)] = [
        (key[0], value)
        for key, value in shown(Settings(data_dir=tmp_path, admin_tls=tls)).items()
    ]
    assert name == "lakelog_admin_certificate_expires_seconds"
    assert value == expires_s((ACCESS / "localhost.pem").read_text())
    broken = tmp_path / "broken.pem"
    broken.write_text("nothing")
    for path in (broken, tmp_path / "missing.pem"):
        tls = AdminTlsSettings(certificate=path)
        assert shown(Settings(data_dir=tmp_path, admin_tls=tls)) == {}


def test_of_each_role_the_token_that_expires_next_is_shown(tmp_path):
    settings = Settings(data_dir=tmp_path)
    assert shown(settings) == {}
    tokens = Tokens(tmp_path)
    tokens.create(Role.ADMIN, "for ever", NOW_MS)
    tokens.create(Role.VIEWER, "later", NOW_MS, 9_000)
    tokens.create(Role.VIEWER, "next", NOW_MS, 5_000)
    tokens.create(Role.VIEWER, "over", NOW_MS - 9_000, 5_000)
    name = "lakelog_admin_token_expires_seconds"
    assert shown(settings) == {(name, "viewer"): (NOW_MS + 5_000) / 1000}
