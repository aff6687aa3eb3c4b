"""When a version was committed, as Delta's readers take it for time travel.

The problem: an entry holds the clock of its writer, who then writes files and the entry
itself; and in a copy of a table it is of another day. Who asks a reader for the table
as of that time gets the version before. The idea: what readers do. They take the time
that the entry's file has, each a millisecond after that of the version before it at
least; or, where a table has in-commit timestamps, these.

Source: the Delta protocol, "In-Commit Timestamps", and Delta's DeltaHistoryManager.
"""

import os
from collections.abc import Mapping
from typing import Any, Final

from lakehouse.log.delta_log import entry_path
from lakehouse.log.entry import IN_COMMIT

_BEFORE_MAX: Final = 20
"""So many entries before it are looked at: those of one tick, or of a clock's step."""


def time_of(path: str, version: int, info: Mapping[str, Any]) -> int | None:
    """Milliseconds since 1970; None if its entry has left the log. Blocks."""
    said = number(info.get(IN_COMMIT))
    return _entered_ms(path, version) if said is None else said


def _entered_ms(path: str, version: int) -> int | None:
    found: int | None = None
    for before in range(min(_BEFORE_MAX, version) + 1):
        try:
            status = os.stat(entry_path(path, version - before))
        except OSError:
            break
        at_ms = status.st_mtime_ns // 1_000_000 + before
        found = at_ms if found is None else max(found, at_ms)
    return found


def number(value: Any) -> int | None:
    """A number that is one, or a text that is."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    return int(value) if isinstance(value, str) and is_number(value) else None


def is_number(text: str) -> bool:
    """Whether a text is a number that an entry may have."""
    return text.isascii() and text.isdigit() and len(text) < 20
