"""Finalized features: the levels that clients have chosen, and how often they did.

Nothing is stored of a feature that nobody has changed. The epoch counts the changes, so
that of two answers to ApiVersions a client can tell the newer one (KIP-584).
"""

from collections.abc import Mapping

from sqlalchemy import Connection, select

from broker.catalog.schema import counters, finalized_features
from broker.catalog.upserts import upsert

_EPOCH = "features_epoch"


def store(connection: Connection, levels: Mapping[str, int]) -> int:
    """Write the levels of these features over what was there; the epoch after that."""
    rows = [{"name": name, "level": level} for name, level in levels.items()]
    upsert(connection, finalized_features, rows)
    epoch = _epoch(connection) + 1
    upsert(connection, counters, [{"name": _EPOCH, "next": epoch}])
    return epoch


def load(connection: Connection) -> tuple[dict[str, int], int]:
    """The level of each feature that was changed, and the epoch."""
    rows = connection.execute(select(finalized_features))
    return {row.name: row.level for row in rows}, _epoch(connection)


def _epoch(connection: Connection) -> int:
    found = connection.scalar(select(counters.c.next).where(counters.c.name == _EPOCH))
    return 0 if found is None else int(found)
