"""Files that are written and not yet committed, out of the reach of anybody's VACUUM.

The problem: a VACUUM deletes what no version up to its own names and what is old
enough, and with ``RETAIN 0 HOURS`` all is old enough that changed before it began. It
lists first and deletes seconds later; what was written when it listed, and committed
meanwhile, is gone then, with its records. The idea: a VACUUM passes over directories
whose names begin with a dot, and over what changed after it began. So a file is written
in such a directory, and when it gets its place it says that it changes in ten minutes;
a commit says so of its files once more. A VACUUM that begins when these are over has
seen the commit; and what waited for its commit for longer than that may be on the list
of one that has not: it takes nobody's place (`is_over`).

The price: what leaves a table within ten minutes of being written stays for so long,
whatever a VACUUM retains. Who goes by the age of our files takes `AHEAD_MS` off.

Source: Delta's ``VacuumCommand`` (``isHiddenDirectory``, ``deleteBeforeTimestamp``);
delta-rs' ``VacuumBuilder`` does the same.
"""

import os
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from lakehouse.durable import sync_directory, sync_file

AHEAD_MS: Final = 600_000
DIRECTORY: Final = ".in_flight"
"""Below a table's."""


def hidden(path: str) -> str:
    """Where the file is written that will be at ``path``, in the directory of its
    partition. It begins with a dot: it is no attempt of an owner's."""
    directory, name = os.path.split(path)
    root, partition = os.path.split(directory)
    return os.path.join(root, DIRECTORY, f".{partition}-{name}")


def is_begun(path: str) -> bool:
    """Whether a path below a table's is of a file that is being written: no version
    ever named it."""
    return path.startswith(f"{DIRECTORY}{os.sep}")


def begin(path: str) -> str:
    """The same, with the directories there."""
    for one in (path, hidden(path)):
        os.makedirs(os.path.dirname(one), exist_ok=True)
    return hidden(path)


def show(path: str) -> os.stat_result:
    """Give the file its name, durable with its directory; how it was before. Raises
    SyncFailed and OSError."""
    source = hidden(path)
    sync_file(source)
    status = os.stat(source)
    keep(source)
    os.rename(source, path)
    sync_directory(os.path.dirname(path))
    return status


def keep(path: str) -> None:
    """No VACUUM that begins in the next minutes takes this file, unless a version that
    it sees says that it may. Raises OSError if it is not there. (That of another user,
    as a cluster's workers may be, is left as they made it.)"""
    until_s = datetime.now(UTC).timestamp() + AHEAD_MS / 1_000
    with suppress(PermissionError):
        os.utime(path, (until_s, until_s))


def is_over(path: str, written_ms: int) -> bool:
    """Whether a VACUUM may have found a file old before its commit, and delete it after
    that. ``written_ms``: as `show` found it. Raises OSError if it is not there."""
    until_ms = os.stat(path).st_mtime_ns // 1_000_000
    is_kept = until_ms - written_ms >= AHEAD_MS
    return is_kept and until_ms <= datetime.now(UTC).timestamp() * 1_000
