"""The system calls of the compiled writer, in order, as a program that prints them.

``python -m tests.support.compiled_calls DIRECTORY [relaxed]``. Compiled code asks the C
library itself, so whoever patches ``os`` sees nothing of it (``syscalls.py``). But its
compiler can be told where a function of the C library is, before the code is loaded. So
this is a process of its own: each such call is made and noted, a write before it, a
sync when it has returned. What is printed is JSON, a list for each append: all phrases
(``write horizon``, ``sync segment-0000.log``, ``write loop``) until its loop was told.
"""

import ctypes
import json
import os
import select
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from llvmlite import binding

if TYPE_CHECKING:
    from tests.broker.storage.driver import Driver

_LIBC = ctypes.CDLL(None)
_INT, _SIZE, _LONG = ctypes.c_int, ctypes.c_size_t, ctypes.c_int64
_KINDS = {
    "write": ctypes.CFUNCTYPE(_LONG, _INT, _SIZE, _SIZE),
    "pwrite": ctypes.CFUNCTYPE(_LONG, _INT, _SIZE, _SIZE, _LONG),
    "pwritev": ctypes.CFUNCTYPE(_LONG, _INT, _SIZE, _INT, _LONG),
    "fdatasync": ctypes.CFUNCTYPE(_INT, _INT),
}
JOINED, IN_PARTS = 10, 40_000
"""Bytes of a record in a batch that is copied behind its header, or is not."""


class CompiledCalls:
    """Notes what code calls that is compiled or loaded after this was made."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self._kept = []
        for name, kind in _KINDS.items():
            called = kind((name, _LIBC))
            noted = self._sync(called) if name == "fdatasync" else self._write(called)
            self._kept.append(kind(noted))
            address = ctypes.cast(self._kept[-1], ctypes.c_void_p).value
            assert address is not None
            binding.add_symbol(name, address)

    def _write(self, call: Callable[..., int]) -> Callable[..., int]:
        def noted(file: int, *rest: int) -> int:
            self.events.append(f"write {_name(file)}")
            return call(file, *rest)

        return noted

    def _sync(self, call: Callable[..., int]) -> Callable[..., int]:
        def noted(file: int) -> int:
            done = call(file)
            self.events.append(f"sync {_name(file)}")
            return done

        return noted


def _name(file: int) -> str:
    """Of a file; that of an eventfd is ``loop``, whom it wakes."""
    path = Path(os.readlink(f"/proc/self/fd/{file}"))
    return path.name if path.is_absolute() else "loop"


def story(calls: CompiledCalls, directory: Path, *, sync: bool) -> list[list[str]]:
    """A small batch, a larger one, a marker and a batch again, each for itself."""
    from broker.storage.files import PosixFiles
    from tests.broker.storage.driver import Driver

    driver = Driver(PosixFiles(), directory, segment_bytes=1 << 20, sync=sync)
    driver.settle()
    readers: dict[int, Callable[[], None]] = {}
    driver.wal.accelerate(
        lambda _: (0, -(1 << 62), 1 << 62), readers.__setitem__, readers.pop
    )
    found = []
    for size in (JOINED, JOINED, IN_PARTS, 0, JOINED):
        calls.events.clear()
        _append(driver, readers, size)
        found.append(list(calls.events))
    driver.close()
    return found[1:]  # the first one begins a segment, in Python


def _append(
    driver: "Driver", readers: dict[int, Callable[[], None]], size: int
) -> None:
    """A batch of one record of this size, or a marker, until the loop was told."""
    from tests.broker.storage.driver import an_append
    from tests.support.batches import Record, make_batch

    if size:
        base = driver.next_offset.get((1, 0), 0)
        batch = make_batch([Record(b"k", bytes(size))], base)
        one = an_append(batch, done=driver.finished.append)
        driver.next_offset[1, 0] = base + 1
        driver.wal.append(one)
    else:
        one = driver.append_marker()
    while one not in driver.finished:
        for file in select.select(list(readers), [], [], 0.01)[0]:
            readers[file]()
        while not driver.calls.empty():
            driver.turn()
    assert one.error is None


def main() -> None:
    calls = CompiledCalls()
    found = story(calls, Path(sys.argv[1]), sync="relaxed" not in sys.argv)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
