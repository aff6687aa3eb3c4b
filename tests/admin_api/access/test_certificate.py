"""A certificate that was replaced is shown from then on; a broken one never is."""

import asyncio
import os
import ssl
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from admin_api.access import certificate as module
from admin_api.access.certificate import Certificate, context_of
from broker.settings import AdminTlsSettings
from tests.support.patience import Patience

HERE = Path(__file__).parent
BEFORE, AFTER = (HERE / "localhost.pem").read_text(), (HERE / "renewed.pem").read_text()
KEY = "-----BEGIN PRIVATE KEY-----"


def put(path, text):
    """As whoever renews certificates replaces a file."""
    new = path.with_suffix(".new")
    new.write_text(text)
    os.replace(new, path)


def der(pem):
    certificate, _, _ = pem.partition(KEY)
    return ssl.PEM_cert_to_DER_cert(certificate.strip() + "\n")


def shown(server):
    """The certificate that a client without a name for the server is shown."""
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting.wrap_bio(to_client, to_server)
    here = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for side in (client, here):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return client.getpeercert(binary_form=True)


@pytest.fixture
def file(tmp_path):
    put(tmp_path / "pem", BEFORE)
    return tmp_path / "pem"


def test_a_replaced_certificate_is_shown_to_whoever_comes_then(file):
    certificate = Certificate(AdminTlsSettings(certificate=file))
    served = certificate.context()
    assert shown(served) == der(BEFORE)
    assert not certificate.renew()
    put(file, AFTER)
    assert shown(served) == der(BEFORE)
    assert certificate.renew()
    assert shown(served) == der(AFTER)
    assert not certificate.renew()


@pytest.mark.parametrize("text", ["", "no certificate", AFTER.partition(KEY)[0]])
def test_one_that_cannot_be_used_is_told_once_and_not_shown(file, text):
    certificate = Certificate(AdminTlsSettings(certificate=file))
    served = certificate.context()
    put(file, text)
    with capture_logs() as events:
        assert not certificate.renew()
        assert not certificate.renew()
    assert [event["log_level"] for event in events] == ["warning"]
    assert shown(served) == der(BEFORE)
    put(file, AFTER)
    assert certificate.renew()


def test_between_certificate_and_key_the_one_before_is_shown(tmp_path):
    before, key, rest = BEFORE.partition(KEY)
    after, _, new = AFTER.partition(KEY)
    put(tmp_path / "c", before)
    put(tmp_path / "k", key + rest)
    tls = AdminTlsSettings(certificate=tmp_path / "c", key=tmp_path / "k")
    certificate = Certificate(tls)
    served = certificate.context()
    put(tmp_path / "c", after)
    assert not certificate.renew()
    assert shown(served) == der(BEFORE)
    put(tmp_path / "k", key + new)
    assert certificate.renew()
    assert shown(served) == der(AFTER)


def test_one_that_is_taken_away_stays_shown(file):
    certificate = Certificate(AdminTlsSettings(certificate=file))
    served = certificate.context()
    file.unlink()
    assert not certificate.renew()
    assert shown(served) == der(BEFORE)


def test_it_is_followed_by_itself(file, monkeypatch):
    monkeypatch.setattr(module, "LOOK_S", 0.01)
    certificate = Certificate(AdminTlsSettings(certificate=file))
    served = certificate.context()

    async def story():
        following = asyncio.create_task(certificate.follow())
        put(file, AFTER)
        patience = Patience()
        while shown(served) != der(AFTER):
            assert patience.lasts()
            await asyncio.sleep(0.01)
        following.cancel()

    asyncio.run(story())


def test_without_a_certificate_there_is_no_context():
    with pytest.raises(ValueError, match="no certificate"):
        context_of(AdminTlsSettings())
