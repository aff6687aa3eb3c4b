"""What an owner asked of a table that keeps or breaks something, and stops nothing.

The problem: a property may keep rows for ever, or have his own statements fail later,
while records come in and consumers get them; nothing is stuck, so nobody would learn
why. The idea: one sentence for each, of what the table says of itself, for the log of
the compactor, `lakelog table`, `lakelog check` and the admin plane. Pure.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from lakehouse.log.delta_log import Snapshot
from lakehouse.log.ours import CONSTRAINT, why_nothing_leaves

_RULES: Final = {"delta.invariants", "delta.generationExpression"}


def remarks_of(snapshot: Snapshot) -> list[str]:
    """One sentence for each thing; none of a table that is as it was made."""
    found = (
        snapshot.unclear,
        _kept(snapshot),
        _constrained(snapshot),
        _ruled(snapshot),
    )
    return [*filter(None, found)]


def _kept(snapshot: Snapshot) -> str | None:
    """Why no row leaves the table."""
    why = why_nothing_leaves(snapshot.metadata)
    if why is None:
        return None
    return (
        f"no row leaves it, neither by retention nor by DeleteRecords: {why} "
        "(consumers get nothing below the log's start all the same)"
    )


def _constrained(snapshot: Snapshot) -> str | None:
    """Which constraints nobody holds against records: these were acknowledged."""
    names = sorted(
        key.removeprefix(CONSTRAINT)
        for key in snapshot.configuration
        if key.startswith(CONSTRAINT)
    )
    if not names:
        return None
    drops = " and ".join(f"DROP CONSTRAINT {name}" for name in names)
    return (
        f"its CHECK constraints are held against no record ({', '.join(names)}): one "
        "that breaks them is added all the same, and then a DELETE, UPDATE, MERGE or "
        "OPTIMIZE that writes its row anew fails, until its owner says "
        f"ALTER TABLE ... {drops}"
    )


def _ruled(snapshot: Snapshot) -> str | None:
    """The same of what is asked of single columns."""
    schema = snapshot.metadata.schema_string if snapshot.metadata else ""
    try:
        names = [one["name"] for one in json.loads(schema)["fields"] if _has_rule(one)]
    except (ValueError, KeyError, TypeError, AttributeError):
        return None  # who reads the schema for more says it
    if not names:
        return None
    return (
        "what is asked of its columns (NOT NULL, an invariant, a generated value) is "
        f"held against no record ({', '.join(names)}): one without it is added all the "
        "same, and its owner's statements that write its row anew may fail"
    )


def _has_rule(column: Mapping[str, Any]) -> bool:
    said = set(column.get("metadata") or ())
    return column["nullable"] is not True or not said.isdisjoint(_RULES)
