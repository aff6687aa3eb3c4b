"""Where the plane may listen, and by which certificate."""

import ipaddress
import socket

from admin_api.access.certificate import context_of
from admin_api.access.tokens import Tokens
from broker.settings import AdminTlsSettings


class ExposureRefused(Exception):
    """The plane may not listen so; the message is one sentence for people."""


def listen(host: str, port: int) -> socket.socket:
    """A bound socket; port 0 chooses a free one. Raises OSError where it is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError:
        bound.close()
        raise
    return bound


def is_loopback(bound: socket.socket) -> bool:
    """Whether only this machine reaches the socket."""
    host = str(bound.getsockname()[0]).partition("%")[0]
    address = ipaddress.ip_address(host)
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def check(bound: socket.socket, tokens: Tokens, *, insecure: bool) -> None:
    """Raises ExposureRefused where others reach the socket and nobody needs a token,
    unless that is what is wanted (``insecure``); TokensUnreadable."""
    if insecure or is_loopback(bound) or tokens.read() is not None:
        return
    host = bound.getsockname()[0]
    raise ExposureRefused(
        f"the admin plane on {host} would be open to whoever reaches it: make a token "
        "(lakelog admin token create --role admin), or say --insecure"
    )


def check_certificate(tls: AdminTlsSettings) -> bool:
    """Whether the plane speaks TLS. Raises ExposureRefused if it cannot and should."""
    if tls.certificate is None and tls.key is None:
        return False
    if tls.certificate is None:
        raise ExposureRefused("admin_tls.key is set, and admin_tls.certificate is not")
    try:
        context_of(tls)
    except (OSError, ValueError) as error:
        raise ExposureRefused(
            f"admin_tls.certificate={tls.certificate} cannot be used: {error}"
        ) from error
    return True
