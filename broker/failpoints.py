"""Named points at which a test may kill the process, as ``kill -9`` would.

``LAKELOG_FAILPOINTS="wal.after_write=3,commit.before=1"`` kills the process the third
time it passes ``wal.after_write`` and the first time it passes ``commit.before``.
Without the variable a point costs a look-up in an empty dict and a comparison. A test
in the same process may `watch` them instead.
"""

import os
import signal
from collections.abc import Callable

_remaining: dict[str, int] = {}
_watcher: Callable[[str], None] | None = None


def arm(specification: str) -> None:
    """Set the points from ``name=count,...``; a bare name counts one."""
    _remaining.clear()
    for item in filter(None, specification.split(",")):
        name, _, count = item.partition("=")
        _remaining[name.strip()] = int(count or 1)


def watch(watcher: Callable[[str], None] | None) -> None:
    """Tell ``watcher`` of each point that is passed, on its thread; None: nobody."""
    global _watcher
    _watcher = watcher


def passing(name: str) -> None:
    """Say that this point is passed; die here if it was asked for."""
    if _watcher is not None:
        _watcher(name)
    if not _remaining or name not in _remaining:
        return
    _remaining[name] -= 1
    if _remaining[name] == 0:
        _die()


def armed() -> bool:
    """Whether any point is set."""
    return bool(_remaining)


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


arm(os.environ.get("LAKELOG_FAILPOINTS", ""))
