"""The certificate of the plane, taken anew while it runs when its files changed.

Certificates of today live for weeks, and whoever renews them replaces two files, one
after the other. So the files are looked at every few seconds; what was changed is
loaded into a context of its own, and only one that holds together is given to the
connections that come then. One that cannot be used is told once, and the one before
serves on.
"""

import asyncio
import ssl
from pathlib import Path
from typing import Any, Final

import structlog

from broker.settings import AdminTlsSettings

LOOK_S: Final = 10.0

log = structlog.get_logger("lakelog.admin")

_Seen = tuple[tuple[int, int, int] | None, ...]


def context_of(tls: AdminTlsSettings) -> ssl.SSLContext:
    """TLS with the certificate of now. Raises OSError, ValueError if it cannot be."""
    if tls.certificate is None:
        raise ValueError("there is no certificate")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tls.certificate, tls.key, password=_no_password)
    return context


class Certificate:
    """What the plane shows to each connection that comes."""

    def __init__(self, tls: AdminTlsSettings) -> None:
        """Raises OSError, ValueError where there is none to begin with."""
        self._tls = tls
        self._seen = self._refused = self._look()
        self._newest = context_of(tls)

    def context(self) -> ssl.SSLContext:
        """For a server: it takes the newest at each handshake."""
        served = context_of(self._tls)
        served.sni_callback = self._choose
        return served

    def renew(self) -> bool:
        """Whether there was another one, which is shown from now on. Blocks."""
        seen = self._look()
        if seen == self._seen:
            return False
        try:
            self._newest = context_of(self._tls)
        except (OSError, ValueError) as error:
            if seen != self._refused:
                self._refused = seen
                log.warning("the certificate cannot be renewed", why=str(error))
            return False
        self._seen = self._refused = seen
        log.info("the certificate was renewed")
        return True

    async def follow(self) -> None:
        """Renew it whenever it changed, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            await asyncio.to_thread(self.renew)

    def _choose(self, connection: Any, _name: str | None, _of: ssl.SSLContext) -> None:
        """Called at each handshake, also where no name is asked for."""
        connection.context = self._newest

    def _look(self) -> _Seen:
        return tuple(_identity(path) for path in (self._tls.certificate, self._tls.key))


def _identity(path: Path | None) -> tuple[int, int, int] | None:
    """What differs when a file was replaced or written; None where there is none."""
    try:
        found = path.stat() if path is not None else None
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_ino, found.st_size) if found else None


def _no_password() -> str:
    """Instead of a question on the terminal that nobody answers."""
    raise ValueError("its key is encrypted")
