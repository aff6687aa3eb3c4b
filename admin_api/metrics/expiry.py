"""When the plane's certificate and its tokens expire, where that is known."""

import ssl
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric

from admin_api.access.tokens import Role, Tokens, TokensUnreadable
from broker.settings import Settings

_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
_FORMS: Final = {0x17: "%y%m%d%H%M%S%z", 0x18: "%Y%m%d%H%M%S%z"}
"""UTCTime and GeneralizedTime, by their tags in DER."""
_VERSION: Final = 0xA0
_BEFORE_VALIDITY: Final = 3
"""Serial number, signature algorithm and issuer (RFC 5280, 4.1)."""


def expiry(settings: Settings, now_ms: int) -> Iterator[Metric]:
    """Of the certificate, and of the token of each role that expires next; nothing of
    those that do not expire or cannot be read. Blocks for a moment."""
    certificate = settings.admin_tls.certificate
    if certificate is not None:
        with suppress(OSError, ValueError, IndexError):
            yield GaugeMetricFamily(
                "lakelog_admin_certificate_expires_seconds",
                "When the certificate of the plane expires, seconds since the epoch.",
                expires_s(certificate.read_text()),
            )
    family = GaugeMetricFamily(
        "lakelog_admin_token_expires_seconds",
        "When the next token of the role expires, seconds since the epoch.",
        labels=["role"],
    )
    found = _next_tokens(settings.data_dir, now_ms)
    for role, at_ms in found.items():
        family.add_metric([role.value], at_ms / 1000)
    if found:
        yield family


def _next_tokens(data_dir: Path, now_ms: int) -> dict[Role, int]:
    """Role -> when the next of its tokens expires that is good now."""
    found: dict[Role, int] = {}
    with suppress(TokensUnreadable):
        for token in (Tokens(data_dir).read() or {}).values():
            if token.expires_ms is not None and not token.is_expired(now_ms):
                before = found.get(token.role, token.expires_ms)
                found[token.role] = min(before, token.expires_ms)
    return found


def expires_s(pem: str) -> float:
    """When the first certificate of a file expires, seconds since 1970.

    Raises ValueError, IndexError where there is none.
    """
    start = pem.index(_BEGIN)
    der = ssl.PEM_cert_to_DER_cert(pem[start : pem.index(_END, start) + len(_END)])
    _, at, _ = _element(der, 0)
    _, at, _ = _element(der, at)
    tag, _, end = _element(der, at)
    for _ in range(_BEFORE_VALIDITY + (tag == _VERSION)):
        _, _, end = _element(der, at)
        at = end
    _, at, _ = _element(der, at)
    _, _, at = _element(der, at)  # since when it is good
    tag, at, end = _element(der, at)
    text = der[at:end].decode().replace("Z", "+0000")
    return _time_of(text, _FORMS.get(tag, "%z")).timestamp()


def _time_of(text: str, form: str) -> datetime:
    """A time with its zone. Raises ValueError where it is none."""
    return datetime.strptime(text, form).astimezone(UTC)


def _element(der: bytes, at: int) -> tuple[int, int, int]:
    """An element's tag, and where what is in it begins and ends."""
    tag, length = der[at], der[at + 1]
    at += 2
    if length & 0x80:
        size = length & 0x7F
        length, at = int.from_bytes(der[at : at + size], "big"), at + size
    return tag, at, at + length
