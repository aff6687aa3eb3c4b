"""Leases: which process may do what only one may do.

A lease has a holder until it expires; whoever gets it next has a greater epoch, and
what it protects refuses a smaller one. The lease alone fences nothing: a holder that
was stopped for longer than its lease goes on until it looks. That is why a table's
commits carry numbers that only grow.

Times are the wall clock's, of processes on one machine. A lease that reaches further
than one that is given now was given before the clock was set back, and counts no more:
whoever lives renews in time, or finds another holder.
"""

from typing import NamedTuple

from sqlalchemy import Connection, select, update

from broker.catalog.schema import leases
from broker.catalog.upserts import upsert


class Lease(NamedTuple):
    """Who holds a lease, until when."""

    holder: str
    epoch: int
    expires_ms: int


def get(connection: Connection, name: str) -> Lease | None:
    """The lease as it stands, expired or not; None if it was never held."""
    row = connection.execute(
        select(leases.c.holder, leases.c.epoch, leases.c.expires_ms).where(
            leases.c.name == name
        )
    ).one_or_none()
    return Lease(*row) if row else None


def acquire(
    connection: Connection, name: str, holder: str, now_ms: int, ttl_ms: int
) -> int | None:
    """The epoch under which ``holder`` has the lease now; None if another has it.

    A new holder gets a new epoch, and so does the same one after it has expired or
    was released: somebody else may have held it in between.
    """
    present = get(connection, name)
    held = present is not None and now_ms < present.expires_ms <= now_ms + ttl_ms
    if present is not None and held and present.holder != holder:
        return None
    before = present.epoch if present else 0
    epoch = before if held else before + 1
    upsert(
        connection,
        leases,
        [
            {
                "name": name,
                "holder": holder,
                "epoch": epoch,
                "expires_ms": now_ms + ttl_ms,
            }
        ],
    )
    return epoch


def release(connection: Connection, name: str, holder: str, epoch: int) -> bool:
    """Give the lease up, so that the next owner need not wait. False if not held."""
    released = connection.execute(
        update(leases)
        .where(
            leases.c.name == name, leases.c.holder == holder, leases.c.epoch == epoch
        )
        .values(expires_ms=0)
    )
    return released.rowcount == 1
