"""Each listener's guards, and an alert for each that is missing where it matters."""

import ipaddress
from collections import Counter
from collections.abc import Iterator

from admin_api.access.tokens import Token
from admin_api.security.schemas import Alert, Interface, Issue, SecurityReport
from broker.settings import Settings
from broker.status.unix_socket import NAME, OF_COMPACTOR

_SENTENCES = {
    Issue.NO_TLS: "What is sent to {address} can be read on its way.",
    Issue.NO_AUTHN: "Whoever reaches {address} is let in.",
    Issue.NO_AUTHZ: "Whoever is let in at {address} may do everything.",
}


def report(
    kafka: str,
    admin: str,
    settings: Settings,
    *,
    is_closed: bool,
    tokens: dict[str, Token] | None,
) -> SecurityReport:
    """``kafka`` and ``admin`` are addresses; ``is_closed``: the plane asks for tokens
    although none was made."""
    asks = is_closed or tokens is not None
    interfaces = [
        Interface(
            name="kafka",
            address=kafka,
            is_loopback=is_loopback(kafka),
            tls_enabled=False,
            authentication_method="NONE",
            authorization_enabled=False,
        ),
        Interface(
            name="admin",
            address=admin,
            is_loopback=is_loopback(admin),
            tls_enabled=settings.admin_tls.certificate is not None,
            authentication_method="BEARER" if asks else "NONE",
            authorization_enabled=asks,
        ),
        *_internal(settings),
    ]
    roles = None if tokens is None else Counter(str(t.role) for t in tokens.values())
    alerts = [alert for one in interfaces for alert in _alerts(one)]
    return SecurityReport(interfaces=interfaces, alerts=alerts, tokens=roles)


def _internal(settings: Settings) -> Iterator[Interface]:
    """Where the parts answer the plane: a file's mode guards a socket, the secret an
    address."""
    own = settings.internal
    for name, address, socket in (
        ("internal", own.broker, NAME),
        ("internal of the compactor", own.compactor, OF_COMPACTOR),
    ):
        yield Interface(
            name=name,
            address=address or str(settings.data_dir / "run" / socket),
            is_loopback=address is None or is_loopback(address),
            tls_enabled=False,
            authentication_method="FILE_MODE" if address is None else "SECRET",
            authorization_enabled=False,
        )


def is_loopback(address: str) -> bool:
    """Whether an address HOST:PORT is one that only its own machine reaches; a name
    other than localhost may be reached by anybody."""
    host = address.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _alerts(one: Interface) -> Iterator[Alert]:
    lacking = {
        Issue.NO_TLS: not one.tls_enabled,
        Issue.NO_AUTHN: one.authentication_method == "NONE",
        Issue.NO_AUTHZ: not one.authorization_enabled,
    }
    for issue, is_so in lacking.items():
        if is_so and not one.is_loopback:
            yield Alert(
                affected_interface=one.name,
                issue=issue,
                description=_SENTENCES[issue].format(address=one.address),
            )
