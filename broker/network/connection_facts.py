"""What there is to say of each open connection."""

from collections.abc import Iterator
from typing import Any

from broker.network.connection import Connection
from broker.network.hub import Hub

CLIENT_ID_MAX = 255
"""Characters that are shown: a client may send megabytes."""


def describe(hub: Hub) -> Iterator[dict[str, Any]]:
    """A row for each connection that is open now; for the loop's own thread."""
    now_ms = hub.clock.monotonic_ms()
    for one in list(hub.connections):
        if isinstance(one, Connection):
            yield _row(one, now_ms)


def _row(one: Connection, now_ms: int) -> dict[str, Any]:
    session, liveness = one.session, one.liveness
    client_id = session.client_id
    host = f"[{one.peer}]" if ":" in one.peer else one.peer
    return {
        "address": f"{host}:{one.port}",
        "client_id": None if client_id is None else client_id[:CLIENT_ID_MAX],
        "software_name": session.software.name,
        "software_version": session.software.version,
        "age_ms": now_ms - liveness.since_ms,
        "idle_ms": liveness.idle_ms(now_ms),
        "bytes_in": one.bytes_in,
        "bytes_out": one.bytes_out,
        "open_requests": one.open_requests,
        "unsent_bytes": one.unsent_bytes,
    }
