"""A file system that forgets what was not synced, as a power cut makes a real one do.

Everything is in memory. Each file has what a process would read (the page cache) and
what a disk would still have; a write goes to the first and waits for a sync to reach
the second. Names live in directories, and creations, renames and removals wait likewise
for the directory to be synced.

`ForgetfulFiles.after_power_cut(survives)` is the disk as the next boot would find it:
what was synced, and of the rest whatever ``survives`` lets through: nothing,
everything, or any part of any write, since a disk may write what it was given in any
order.

`ForgetfulFiles.after_kill` is what the next process finds when only this one died: the
page cache as it was, with what was synced, what still waits to be, and what never will.

Calls are counted. ``cut_at`` makes the power go at that call: it and all later ones
raise PowerCut; so does `fail` with a PowerCut. `fail` makes one kind of call fail, as a
full or dying disk would; a sync that failed has lost its writes for good, although
whoever reads the file still sees them, and says nothing the next time (which is what
Linux does, and why nobody may retry one).
"""

import random
import threading
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from broker.storage.files import Buffer

Write = tuple[int, bytes]
Change = dict[Path, "Inode | None"]  # names, changed together or not at all
Survives = Callable[[Write], list[Write]]
PIECE_BYTES = 64  # what is torn: smaller than any sector, so harsher than any disk


class PowerCut(OSError):
    """There is no power."""


class Inode:
    def __init__(self) -> None:
        self.data = bytearray()
        self.durable = b""
        self.waiting: list[Write] = []

    def write(self, position: int, data: bytes) -> None:
        end = position + len(data)
        if end > len(self.data):
            self.data.extend(bytes(end - len(self.data)))
        self.data[position:end] = data
        self.waiting.append((position, data))

    def sync(self) -> None:
        # What waits, not all that is there: a failed sync has forgotten its writes.
        disk = bytearray(self.durable)
        for write in self.waiting:
            _put(disk, write)
        self.durable = bytes(disk)
        self.waiting.clear()

    def copy(self) -> "Inode":
        copy = Inode()
        copy.data, copy.durable = bytearray(self.data), self.durable
        copy.waiting = list(self.waiting)
        return copy


class ForgetfulMap:
    """As a real mapping it cannot be closed while somebody holds a part of its view."""

    def __init__(self, inode: Inode, size: int) -> None:
        assert size <= len(inode.data)
        mapped = np.frombuffer(inode.data, np.uint8, size)
        self.view = memoryview(mapped).toreadonly()
        self._mapped = weakref.ref(mapped)  # every part of the view keeps it alive

    def forget(self) -> None:
        pass

    def is_resident(self, position: int, length: int) -> bool:
        return position + length <= len(self.view)

    def close(self) -> None:
        self.view.release()
        if self._mapped() is not None:
            raise BufferError("a part of the view is alive")


class ForgetfulFiles:
    """Implements `broker.storage.files.Files`; any thread may call."""

    def __init__(self) -> None:
        self.names: dict[Path, Inode] = {}
        self.durable_names: dict[Path, Inode] = {}
        self.waiting_names: list[Change] = []
        self.directories: set[Path] = set()
        self.calls: list[str] = []
        self.cut_at: int | None = None
        self.free_bytes, self.disk_bytes = 1 << 40, 0  # what `space` tells
        self._failures: list[tuple[str, int, OSError]] = []
        self._held: dict[str, threading.Event] = {}
        self._open: dict[int, Inode] = {}
        self._lock = threading.RLock()
        self._locked: set[Path] = set()

    def fail(self, operation: str, error: OSError, nth: int = 1) -> None:
        """Let the nth call of this kind from now on fail."""
        with self._lock:
            self._failures.append((operation, nth, error))

    @property
    def open_handles(self) -> int:
        """Files that were opened and not closed again."""
        return len(self._open)

    def hold(self, operation: str) -> threading.Event:
        """Let calls of this kind hang until the event is set."""
        return self._held.setdefault(operation, threading.Event())

    def count(self, operation: str) -> int:
        return self.calls.count(operation)

    def after_power_cut(self, survives: Survives) -> "ForgetfulFiles":
        """A new file system with what the disk has; this one stays as it is."""
        with self._lock:
            names = dict(self.durable_names)
            for change in self.waiting_names:
                if survives((0, b"name")):
                    _name(names, change)
            new = ForgetfulFiles()
            new.directories = set(self.directories)
            for path, inode in names.items():
                copy = Inode()
                copy.durable = _disk(inode, survives)
                copy.data = bytearray(copy.durable)
                new.names[path] = new.durable_names[path] = copy
            return new

    def after_kill(self) -> "ForgetfulFiles":
        """What the next process finds if only this one died: all that was written.

        None of it is any nearer to the disk for that.
        """
        with self._lock:
            new = ForgetfulFiles()
            new.directories = set(self.directories)
            copies: dict[Inode | None, Inode | None] = {None: None}

            def renewed(names: Change) -> Change:
                for inode in names.values():
                    if inode is not None and inode not in copies:
                        copies[inode] = inode.copy()
                return {path: copies[inode] for path, inode in names.items()}

            new.names = _present(renewed({**self.names}))
            new.durable_names = _present(renewed({**self.durable_names}))
            new.waiting_names = [renewed(change) for change in self.waiting_names]
            return new

    # What storage calls.

    def open(self, path: Path) -> int:
        with self._step("open"):
            return self._handle(path)

    def open_read(self, path: Path) -> int:
        with self._step("open_read"):
            return self._handle(path)

    def create(self, path: Path) -> int:
        with self._step("create"):
            self._name({path: Inode()})
            return self._handle(path)

    def close(self, file: int) -> None:
        with self._lock:
            del self._open[file]

    def size(self, file: int) -> int:
        return len(self._open[file].data)

    def pwritev(self, file: int, parts: Sequence[Buffer], position: int) -> None:
        data = b"".join(parts)
        inode = self._open[file]
        try:
            with self._step("pwritev"):
                inode.write(position, data)
        except PowerCut:
            if self.cut_at == len(self.calls):  # the first to notice was half way
                inode.write(position, data)
            raise

    def pread(self, file: int, length: int, position: int) -> bytes:
        with self._step("pread"):
            return bytes(self._open[file].data[position : position + length])

    def fdatasync(self, file: int) -> None:
        try:
            with self._step("fdatasync"):
                self._open[file].sync()
        except PowerCut:
            raise
        except OSError:
            self._open[file].waiting.clear()
            raise

    def allocate(self, file: int, size: int) -> None:
        with self._step("allocate"):
            self._open[file].write(0, bytes(size))
            self._open[file].sync()

    def map(self, file: int, size: int) -> ForgetfulMap:
        with self._step("map"):
            return ForgetfulMap(self._open[file], size)

    def rename(self, old: Path, new: Path) -> None:
        with self._step("rename"):
            self._name({old: None, new: self.names[old]})

    def unlink(self, path: Path) -> None:
        with self._step("unlink"):
            if path not in self.names:
                raise FileNotFoundError(path)
            self._name({path: None})

    def listdir(self, path: Path) -> list[str]:
        with self._step("listdir"):
            return [name.name for name in self.names if name.parent == path]

    def mkdir(self, path: Path) -> None:
        with self._lock:
            self.directories.add(path)

    def fsync_dir(self, path: Path) -> None:
        with self._step("fsync_dir"):
            waiting, self.waiting_names = self.waiting_names, []
            for change in waiting:
                if all(name.parent == path for name in change):
                    _name(self.durable_names, change)
                else:
                    self.waiting_names.append(change)

    def space(self, path: Path) -> tuple[int, int]:
        return self.free_bytes, self.disk_bytes

    def lock(self, path: Path) -> int | None:
        with self._step("lock"):
            if path in self._locked:
                return None
            self._locked.add(path)
            if path not in self.names:
                self._name({path: Inode()})
            return self._handle(path)

    def _handle(self, path: Path) -> int:
        if path not in self.names:
            raise FileNotFoundError(path)
        handle = max(self._open, default=2) + 1
        self._open[handle] = self.names[path]
        return handle

    def _name(self, change: Change) -> None:
        _name(self.names, change)
        self.waiting_names.append(change)

    def _step(self, operation: str) -> "_Step":
        return _Step(self, operation)

    def _count(self, operation: str) -> None:
        self.calls.append(operation)
        if self.cut_at is not None and len(self.calls) >= self.cut_at:
            raise PowerCut("the power is gone")
        for index, (name, nth, error) in enumerate(self._failures):
            if name == operation:
                self._failures[index] = (name, nth - 1, error)
                if nth == 1:
                    del self._failures[index]
                    if isinstance(error, PowerCut):
                        self.cut_at = len(self.calls)
                    raise error
                break


class _Step:
    def __init__(self, files: ForgetfulFiles, operation: str) -> None:
        self._files = files
        self._operation = operation

    def __enter__(self) -> None:
        held = self._files._held.get(self._operation)
        if held is not None:
            held.wait()
        self._files._lock.acquire()
        try:
            self._files._count(self._operation)
        except BaseException:
            self._files._lock.release()
            raise

    def __exit__(self, *_: object) -> None:
        self._files._lock.release()


def nothing(write: Write) -> list[Write]:
    """The power cut takes all that was not synced."""
    return []


def everything(write: Write) -> list[Write]:
    """All that was written had reached the disk by chance."""
    return [write]


def pieces(chance: random.Random, likelihood: float) -> Survives:
    """Each piece of each write survives or not, whatever lies before or behind it."""

    def survives(write: Write) -> list[Write]:
        position, data = write
        return [
            (position + at, data[at : at + PIECE_BYTES])
            for at in range(0, len(data), PIECE_BYTES)
            if chance.random() < likelihood
        ]

    return survives


def _disk(inode: Inode, survives: Survives) -> bytes:
    disk = bytearray(inode.durable)
    for write in inode.waiting:
        for piece in survives(write):
            _put(disk, piece)
    return bytes(disk)


def _put(disk: bytearray, write: Write) -> None:
    position, data = write
    end = position + len(data)
    if end > len(disk):
        disk.extend(bytes(end - len(disk)))
    disk[position:end] = data


def _present(names: Change) -> dict[Path, Inode]:
    return {path: inode for path, inode in names.items() if inode is not None}


def _name(names: dict[Path, Inode], change: Change) -> None:
    for path, inode in change.items():
        if inode is None:
            names.pop(path, None)
        else:
            names[path] = inode
