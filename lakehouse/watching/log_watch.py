"""Which of many tables' logs change: the system tells, nobody goes around.

The problem: to try to open the next entry of ten thousand logs takes a tenth of a
second, and nearly always none of them has one. The idea: the directories of the logs
are watched (inotify), and for tables that are not there the warehouse is.

The price: a kilobyte of the kernel's memory for each table; of file systems that other
machines write to, which tell nothing of that, each log has to be looked at.

Source: inotify(7), statfs(2).
"""

import ctypes
import os
from collections.abc import Callable
from typing import Final

from lakehouse.watching.inotify import ANYTHING, Watch

LOGS_MAX: Final = 65_536
LOG_DIRECTORY: Final = "_delta_log"
_LOCAL: Final = frozenset(
    {
        0xEF53, 0x58465342, 0x9123683E, 0x01021994, 0x794C7630, 0x2FC12FC1,
        0xF2F52010, 0xCA451A4E,
    }
)  # fmt: skip
"""ext2 to ext4, XFS, Btrfs, tmpfs, overlayfs, ZFS, F2FS, bcachefs."""


def tells(path: str) -> bool:
    """Whether the file system of a directory tells of all that is done in it."""
    buffer = ctypes.create_string_buffer(512)
    try:
        failed = ctypes.CDLL(None).statfs(os.fsencode(path), buffer)
    except AttributeError:
        return False
    kind = int.from_bytes(buffer.raw[: ctypes.sizeof(ctypes.c_long)], "little")
    return not failed and kind & 0xFFFF_FFFF in _LOCAL


def watch_logs() -> Watch:
    """Raises OSError where the system cannot."""
    return Watch(ANYTHING, LOGS_MAX)


class LogWatch:
    """The logs of tables below ``warehouse``. One thread at a time."""

    def __init__(
        self,
        warehouse: str,
        make_watch: Callable[[], Watch] = watch_logs,
        tells: Callable[[str], bool] = tells,
    ) -> None:
        self._warehouse, self._root = warehouse, os.path.realpath(warehouse)
        self._tells = tells
        self._is_entered = False
        self._entered: tuple[int, int] | None = None
        """Which directory the warehouse was when it was entered."""
        self._paths: dict[str, str] = {}
        """Watched directory -> the table."""
        self._places: dict[str, str] = {}
        try:
            self._watch: Watch | None = make_watch()
        except OSError:
            self._watch = None

    def follow(self, path: str) -> bool:
        """Tell of the table's log that is there from now on; False: nothing tells of
        it. To be called now and then: not all that comes in its place is told of."""
        watch = self._watch
        if watch is None or os.path.dirname(path) != self._warehouse:
            return False
        if not self._is_entered:
            if not os.path.lexists(self._root):
                return True  # `changed` looks whether it came
            if not self._enter(watch):
                return False
        try:
            return self._add(watch, path)
        except OSError:
            return False

    def leave(self, path: str) -> None:
        """Tell nothing more of a table's log."""
        place = self._places.pop(path, None)
        if place is not None and self._watch is not None:
            self._paths.pop(place, None)
            self._watch.remove(place)

    def changed(self) -> set[str] | None:
        """Paths of tables whose logs may have changed since the last call, to be
        followed anew; None: any may have."""
        watch = self._watch
        if watch is None:
            return set()
        if not self._is_entered:
            return None if self._enter(watch) else set()
        found: set[str] = set()
        is_lost = False
        for one in watch.take():
            if one.directory in ("", self._root):
                is_lost |= not one.name
                path = os.path.join(self._warehouse, one.name)
                self.leave(path)  # another directory has its name now, or none
            else:
                path = self._paths.get(one.directory, "")
                if not one.name or one.directory == path:
                    self.leave(path)
            found.add(path)
        if is_lost or _directory(self._root) != self._entered:  # mounted over, say
            self._enter(watch)
            return None
        return found - {""}

    def close(self) -> None:
        """Watch nothing any more."""
        if self._watch is not None:
            self._watch.close()
            self._watch = None

    def _enter(self, watch: Watch) -> bool:
        try:
            is_there = os.path.lexists(self._root)
            self._entered = _directory(self._root)
            self._is_entered = (
                is_there and self._tells(self._root) and watch.add(self._root)
            )
        except OSError:
            self._is_entered = False
        return self._is_entered

    def _add(self, watch: Watch, path: str) -> bool:
        """Watch a table's log; its directory, until it has one; or nothing. Through a
        link it would be another table's, of which the system tells once."""
        is_link = os.path.islink(path)
        if is_link or not os.path.lexists(path):
            self.leave(path)
            return not is_link
        log = os.path.join(path, LOG_DIRECTORY)
        for place in (log, path, log):
            try:
                if not watch.add(place):
                    return False
            except FileNotFoundError:
                continue
            if self._places.get(path) != place:
                self.leave(path)
                self._places[path], self._paths[place] = place, path
            if place == log or not os.path.lexists(log):
                break
        return True


def _directory(path: str) -> tuple[int, int] | None:
    """Which directory stands there; None: there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
