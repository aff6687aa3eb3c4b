"""The disk under one life of a broker: slow, at times full or failing, and forgetful.

What it holds is `tests.support.files.ForgetfulFiles`; this adds time and faults. A
thread that touches it waits for its turn before and after each write, sync and change
of a name, so that a kill finds it between any two of them.
"""

import errno
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from broker.storage.files import Buffer, MappedFile
from tests.simulation.world import Life, World
from tests.support.files import ForgetfulFiles

_CHANGES = ("create", "pwritev", "fdatasync", "allocate", "rename", "fsync_dir")


class DiskFaults:
    """What is wrong with the disk at the moment; outlives a broker."""

    def __init__(self) -> None:
        self.slow_us = 0
        self.full = False
        self.failing: dict[str, int] = {}
        """Operation -> at which of its next calls it fails with EIO, once."""
        self.failed = False
        """Whether the disk has refused anything since the last start."""

    def heal(self) -> None:
        self.slow_us, self.full = 0, False
        self.failing.clear()


class Disk:
    """Implements ``broker.storage.files.Files`` for one life."""

    def __init__(
        self, world: World, life: Life, files: ForgetfulFiles, faults: DiskFaults
    ) -> None:
        self.world, self.life, self.files, self.faults = world, life, files, faults

    def open(self, path: Path) -> int:
        return self._call("open", path)

    def open_read(self, path: Path) -> int:
        return self._call("open_read", path)

    def create(self, path: Path) -> int:
        return self._call("create", path)

    def close(self, file: int) -> None:
        if not self.life.ended:
            self.files.close(file)

    def size(self, file: int) -> int:
        return self._call("size", file)

    def pwritev(self, file: int, parts: Sequence[Buffer], position: int) -> None:
        self._call("pwritev", file, parts, position)

    def pread(self, file: int, length: int, position: int) -> bytes:
        return self._call("pread", file, length, position)

    def fdatasync(self, file: int) -> None:
        self._call("fdatasync", file)

    def allocate(self, file: int, size: int) -> None:
        self._call("allocate", file, size)

    def map(self, file: int, size: int) -> MappedFile:
        return self._call("map", file, size)

    def rename(self, old: Path, new: Path) -> None:
        self._call("rename", old, new)

    def unlink(self, path: Path) -> None:
        self._call("unlink", path)

    def listdir(self, path: Path) -> list[str]:
        return self._call("listdir", path)

    def mkdir(self, path: Path) -> None:
        self._call("mkdir", path)

    def fsync_dir(self, path: Path) -> None:
        self._call("fsync_dir", path)

    def lock(self, path: Path) -> int | None:
        return self._call("lock", path)

    def __getattr__(self, name: str) -> Any:
        """Calls that storage learned since: as slow as a write, never failing."""
        getattr(self.files, name)  # AttributeError if there is none
        return lambda *arguments: self._call(name, *arguments)

    def _call(self, operation: str, *arguments: Any) -> Any:
        self.life.check()
        on_thread = self.world.current is not None
        if on_thread and operation in _CHANGES:
            self._wait(operation)
        self._go_wrong(operation)
        result = getattr(self.files, operation)(*arguments)
        if on_thread and operation in _CHANGES:
            self.world.block(lambda: True)
        return result

    def _wait(self, operation: str) -> None:
        chance = self.world.chance
        takes_us = chance.randrange(5, 60)
        if operation in ("fdatasync", "fsync_dir", "allocate"):
            takes_us = chance.randrange(100, 1500) + self.faults.slow_us
        self.world.block(None, takes_us)

    def _go_wrong(self, operation: str) -> None:
        faults = self.faults
        left = faults.failing.get(operation)
        if left is not None:
            faults.failing[operation] = left - 1
            if left <= 1:
                del faults.failing[operation]
                faults.failed = True
                self.world.tell(f"disk: {operation} fails")
                self.files.fail(operation, OSError(errno.EIO, "the disk is failing"))
        if faults.full and operation in ("create", "allocate"):
            raise OSError(errno.ENOSPC, "no space left on device")
