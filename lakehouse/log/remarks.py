"""What an owner asked of a table that keeps or breaks something, and stops nothing.

The problem: a property may keep rows for ever, or have his own statements fail later,
while records come in and consumers get them; nothing is stuck, so nobody would learn
why. The idea: one sentence for each, of what the table says of itself, for the log of
the compactor, `lakelog table`, `lakelog check` and the admin plane. Pure.
"""

from lakehouse.log.delta_log import Snapshot
from lakehouse.log.ours import why_nothing_leaves


def remarks_of(snapshot: Snapshot) -> list[str]:
    """One sentence for each thing; none of a table that is as it was made."""
    return [*filter(None, [snapshot.unclear, _kept(snapshot)])]


def _kept(snapshot: Snapshot) -> str | None:
    """Why no row leaves the table."""
    why = why_nothing_leaves(snapshot.metadata)
    if why is None:
        return None
    return (
        f"no row leaves it, neither by retention nor by DeleteRecords: {why} "
        "(consumers get nothing below the log's start all the same)"
    )
