"""Where the plane may listen: to others only with tokens, or if that is wanted."""

from pathlib import Path

import pytest

from admin_api.access import exposure
from admin_api.access.exposure import (
    ExposureRefused,
    check_certificate,
    is_loopback,
    listen,
)
from admin_api.access.tokens import Role, Tokens
from broker.settings import AdminTlsSettings

PEM = Path(__file__).parent / "localhost.pem"


@pytest.fixture(params=["127.0.0.1", "localhost", "127.8.8.8"])
def inside(request):
    with listen(request.param, 0) as bound:
        yield bound


@pytest.fixture
def outside():
    with listen("0.0.0.0", 0) as bound:
        yield bound


def test_loopback_is_open_without_tokens(inside, tmp_path):
    assert is_loopback(inside)
    exposure.check(inside, Tokens(tmp_path), insecure=False)


def test_another_address_is_refused_without_tokens(outside, tmp_path):
    assert not is_loopback(outside)
    with pytest.raises(ExposureRefused, match=r"token create .* --insecure"):
        exposure.check(outside, Tokens(tmp_path), insecure=False)


def test_a_token_or_the_owners_word_lets_it_listen(outside, tmp_path):
    exposure.check(outside, Tokens(tmp_path), insecure=True)
    Tokens(tmp_path).create(Role.VIEWER, "", 0)
    exposure.check(outside, Tokens(tmp_path), insecure=False)


def test_without_a_certificate_there_is_no_tls():
    assert not check_certificate(AdminTlsSettings())


def test_a_certificate_with_its_key_in_one_file_or_two(tmp_path):
    assert check_certificate(AdminTlsSettings(certificate=PEM))
    certificate, cut, key = PEM.read_text().partition("-----BEGIN PRIVATE KEY")
    (tmp_path / "c").write_text(certificate)
    (tmp_path / "k").write_text(cut + key)
    tls = AdminTlsSettings(certificate=tmp_path / "c", key=tmp_path / "k")
    assert check_certificate(tls)


def test_what_cannot_be_used_is_said_in_a_sentence(tmp_path):
    (tmp_path / "text").write_text("no certificate")
    for tls in (
        AdminTlsSettings(certificate=tmp_path / "nowhere"),
        AdminTlsSettings(certificate=tmp_path / "text"),
        AdminTlsSettings(certificate=PEM, key=tmp_path / "text"),
        AdminTlsSettings(key=PEM),
    ):
        with pytest.raises(ExposureRefused, match="admin_tls"):
            check_certificate(tls)
