"""What this process asks the operating system to make durable, in order.

A promise across power cuts rests on calls whose absence no ordinary test would notice.
The recorder stands between ``os`` and whoever calls it: the calls are made, and noted
with the path of the file that they concern. Reading is not noted.
"""

import errno
import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest


class SystemCalls:
    """Notes the calls on files below ``root`` while the test runs.

    ``events`` are phrases such as ``write wal/horizon``, ``sync wal/horizon``,
    ``sync directory wal``, ``rename wal/a wal/b``.
    """

    def __init__(self, patch: pytest.MonkeyPatch, root: Path) -> None:
        self._root = os.path.realpath(root)
        self.events: list[str] = []
        of_file = {
            "write": ("write", "pwrite", "pwritev"),
            "sync": ("fdatasync", "fsync"),
            "reserve": ("posix_fallocate",),
        }
        for verb, names in of_file.items():
            for name in names:
                patch.setattr(os, name, self._on_file(verb, getattr(os, name)))
        for verb, name in (("rename", "rename"), ("rename", "replace"),
                           ("link", "link"), ("remove", "unlink")):  # fmt: skip
            patch.setattr(os, name, self._on_paths(verb, getattr(os, name)))

    def of(self, *parts: str) -> list[str]:
        """The events so far that concern a path with one of these words in it."""
        return [one for one in self.events if any(part in one for part in parts)]

    def clear(self) -> None:
        self.events.clear()

    def _on_file(self, verb: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def noted(file: int, *rest: Any) -> Any:
            path = self._relative(os.readlink(f"/proc/self/fd/{file}"))
            if path is not None:
                directory = stat.S_ISDIR(os.fstat(file).st_mode)
                self.events.append(f"{verb} {'directory ' * directory}{path}")
            return call(file, *rest)

        return noted

    def _on_paths(self, verb: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*paths: str | Path, **how: Any) -> Any:
            names = [self._relative(os.path.realpath(path)) for path in paths]
            done = call(*paths, **how)
            if None not in names:
                self.events.append(" ".join([verb, *map(str, names)]))
            return done

        return noted

    def _relative(self, path: str) -> str | None:
        if path != self._root and not path.startswith(self._root + os.sep):
            return None
        return os.path.relpath(path, self._root)


def refuse_syncs(patch: pytest.MonkeyPatch, count: int) -> None:
    """Let so many calls of fsync fail, as on a dying disk; those behind them work."""
    left, real = iter(range(count)), os.fsync

    def fsync(descriptor: int) -> None:
        if next(left, None) is not None:
            raise OSError(errno.EIO, "the disk refused")
        real(descriptor)

    patch.setattr(os, "fsync", fsync)


def refuse_syncs_of(patch: pytest.MonkeyPatch, path: Path) -> None:
    """Let each fsync of this file fail; a copy in its place is another one."""
    inode, real = path.stat().st_ino, os.fsync

    def fsync(descriptor: int) -> None:
        if os.fstat(descriptor).st_ino == inode:
            raise OSError(errno.EIO, "the disk refused")
        real(descriptor)

    patch.setattr(os, "fsync", fsync)


def in_order(events: Sequence[str], wanted: Sequence[str]) -> bool:
    """Whether ``wanted`` is among the events in this order, others between them."""
    rest = iter(events)
    return all(any(one == event for event in rest) for one in wanted)
