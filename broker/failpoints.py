"""Named points at which a test may kill the process, as ``kill -9`` would.

``LAKELOG_FAILPOINTS="wal.after_write=3,commit.before=1"`` kills the process the third
time it passes ``wal.after_write`` and the first time it passes ``commit.before``.
Without the variable a point costs one look-up in an empty dict.
"""

import os
import signal

_remaining: dict[str, int] = {}


def arm(specification: str) -> None:
    """Set the points from ``name=count,...``; a bare name counts one."""
    _remaining.clear()
    for item in filter(None, specification.split(",")):
        name, _, count = item.partition("=")
        _remaining[name.strip()] = int(count or 1)


def passing(name: str) -> None:
    """Say that this point is passed; die here if it was asked for."""
    if not _remaining or name not in _remaining:
        return
    _remaining[name] -= 1
    if _remaining[name] == 0:
        _die()


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


arm(os.environ.get("LAKELOG_FAILPOINTS", ""))
