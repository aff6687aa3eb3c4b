"""In-commit timestamps: when a commit was made, said by the commit and always rising.

The problem: an owner who wants time travel that survives a copy of his table turns them
on, and from then on each commit says when it was made, later than the one before it,
whatever clocks do. The idea: the entry that ours follows is read for what it says; it
is there, since what cleans a log leaves the newest entries. Where it is not, or says
nothing, the clock alone is asked.

Source: the Delta transaction log protocol, "In-Commit Timestamps".
"""

import json
from typing import Any, Final

from lakehouse.log.delta_log import Snapshot, read_entry
from lakehouse.log.entry import IN_COMMIT, Moment

FEATURE: Final = "inCommitTimestamp"
ENABLED: Final = "delta.enableInCommitTimestamps"


def moment_of(table: Snapshot, now_ms: int) -> Moment:
    """When the entry after a table's last one is made, as it is to say."""
    is_on = table.configuration.get(ENABLED, "false").lower() == "true"
    if not is_on or FEATURE not in table.protocol.writer_features:
        return Moment(now_ms)
    return Moment(now_ms, max(now_ms, _said(table) + 1))


def _said(table: Snapshot) -> int:
    """What the table's last entry says; -1: nothing."""
    try:
        first, _, _ = read_entry(table.path, table.version).lstrip().partition(b"\n")
        action: Any = json.loads(first)
        return int(action["commitInfo"][IN_COMMIT])
    except (FileNotFoundError, ValueError, LookupError, TypeError):
        return -1
