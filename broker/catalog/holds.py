"""Holds: owners who keep the compactor from committing to a topic's table for a while.

The problem: whoever changes a table is refused as long as records keep coming into it.
The idea: he says for how long nothing is to come. That is a lease, given to whoever
asks: several may hold one table, each under a name of its own, and it is held until the
last of them is done. A hold outlives its program, and ends by itself; a day is the most
that anybody gets.

Times are the wall clock's. A hold that reaches further than one that is given now was
given before the clock was set back, and counts no more.
"""

from typing import Any, Final

from sqlalchemy import Connection, delete, select

from broker.catalog.schema import leases
from broker.catalog.upserts import upsert

MAX_MS: Final = 86_400_000
OWNER: Final = "owner"
"""Who holds what was asked for by ``--hold``."""
ERASURE: Final = "erase"
"""Who holds what rows are erased from."""
_START: Final = "hold:"


def hold(
    connection: Connection, topic_id: str, by: str, now_ms: int, for_ms: int
) -> int:
    """Hold a topic's table from now on, whatever ``by`` asked for before. Returns until
    when. ``topic_id``: 32 hexadecimal digits."""
    assert 0 < for_ms <= MAX_MS, for_ms
    until_ms = now_ms + for_ms
    is_over = leases.c.expires_ms <= now_ms
    connection.execute(delete(leases).where(_are_holds(), is_over))
    row = {
        "name": f"{_START}{topic_id}:{by}", "holder": by, "epoch": 1,
        "expires_ms": until_ms,
    }  # fmt: skip
    upsert(connection, leases, [row])
    return until_ms


def release(connection: Connection, topic_id: str, by: str | None = None) -> int:
    """End what ``by`` holds of a topic's table; None: whoever does. Returns how many
    holds these were."""
    name = f"{_START}{topic_id}:"
    found = leases.c.name.startswith(name) if by is None else leases.c.name == name + by
    return connection.execute(delete(leases).where(found)).rowcount


def release_all(connection: Connection, by: str) -> None:
    """End whatever ``by`` holds, of any topic's table."""
    is_theirs = leases.c.holder == by
    connection.execute(delete(leases).where(_are_holds(), is_theirs))


def load(
    connection: Connection, now_ms: int, *, but: str | None = None
) -> dict[str, int]:
    """Topic id -> until when its table is held, of those that are; ``but``: whose
    holds do not count."""
    rows = connection.execute(
        select(leases.c.name, leases.c.expires_ms).where(
            _are_holds(),
            leases.c.holder != (but or ""),
            leases.c.expires_ms > now_ms,
            leases.c.expires_ms <= now_ms + MAX_MS,
        )
    )
    found: dict[str, int] = {}
    for name, until_ms in rows:
        topic_id = name.split(":")[1]
        found[topic_id] = max(until_ms, found.get(topic_id, 0))
    return found


def _are_holds() -> Any:
    return leases.c.name.startswith(_START)
