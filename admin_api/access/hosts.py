"""By which names an open plane may be asked: pages of other sites are turned away.

The problem: a plane on loopback that wants no token trusts whoever reaches it, and a
browser on the same machine runs pages of anybody. Such a page cannot read answers of
another site, unless its own name suddenly resolves to 127.0.0.1 (DNS rebinding): then
browser and plane take it for the plane's own page. It may also send what it will never
see answered. The idea: the browser itself says which name it thinks it asks (``Host``)
and whose page it runs (``Origin``), and no page can change that. So both have to name
this machine: a loopback address, ``localhost``, or what the settings name.
"""

import ipaddress
import re
from collections.abc import Iterable
from typing import Final

from broker.settings import Settings

_PORT: Final = re.compile(r":\d*\Z")
_ORIGIN: Final = re.compile(r"https?://([^/?#@]+)\Z")


class Hosts:
    """Names that are this machine's own."""

    def __init__(self, settings: Settings) -> None:
        listens, _, _ = settings.admin.rpartition(":")
        given = (listens, *settings.admin_hosts.split(","))
        self._names = {_plain(name) for name in given if name}

    def refusal(self, headers: Iterable[tuple[bytes, bytes]]) -> str | None:
        """Why a request with these headers is not served, in a sentence; None if it
        is."""
        found = [(name, value.decode("latin-1")) for name, value in headers]
        hosts = [value for name, value in found if name == b"host"]
        if len(hosts) != 1 or not self._is_own(hosts[0]):
            return (
                "While no token was made the plane is asked as localhost only, or by "
                "a name in the setting admin_hosts."
            )
        origins = [value for name, value in found if name == b"origin"]
        if not all(self._is_own_page(origin) for origin in origins):
            return "While no token was made pages of other sites are not served."
        return None

    def _is_own_page(self, origin: str) -> bool:
        match = _ORIGIN.match(origin)
        return match is not None and self._is_own(match[1])

    def _is_own(self, host: str) -> bool:
        name = _plain(_PORT.sub("", host) if _has_port(host) else host)
        return name in self._names or _is_loopback(name)


def _has_port(host: str) -> bool:
    """``::1`` has none, ``[::1]:80`` and ``a:80`` have."""
    return host.startswith("[") or host.count(":") == 1


def _plain(name: str) -> str:
    return name.strip().strip("[]").removesuffix(".").lower()


def _is_loopback(name: str) -> bool:
    """Browsers never ask a resolver for ``localhost`` and names below it (RFC 6761)."""
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
