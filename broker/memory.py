"""Memory that was needed once, and is not needed any more.

The first problem: the compiled loops come out of a cache, but loading them still brings
LLVM into memory: 70 MB of a broker that should be small when nobody uses it. The idea:
once the loops are loaded, the pages of its library are unmapped. They are code, so they
come back from the file, page by page, should anything be compiled after all.

The price: whoever compiles later (nobody does; all loops have their signatures) waits
some milliseconds for the disk.

The second: cold reads decode and rebuild ten megabytes at a time. Arrow's own allocator
keeps what was freed, out of reach of everybody else, and numpy asks for huge pages, of
which one small block keeps two megabytes: together 100 MB. So Arrow allocates as all
others do, and numpy takes ordinary pages; what is kept of a cold read is mapped by
itself (``lake/buffer_pool.py``).

The third: the C library gives each thread a heap of its own, sixteen on two cores, and
keeps in each what was freed there: 120 MB of a broker that served mixed clients for
half an hour. So there are two heaps (Python's lock lets few threads allocate at once),
and what is free in them goes back when nobody reads or writes.
"""

import ctypes
import os
import sys
from ctypes import c_size_t, c_void_p
from pathlib import Path
from typing import Any

_MADV_DONTNEED = 4
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8
HEAPS = 2
MAPPED_BYTES_MIN = 32 << 20
KEPT_BYTES = 64 << 20
"""What may stay free at the end of a heap. Less is given back after each cold read and
faulted in by the next, which then takes twice the processor time."""
_COMPILER = b"libllvmlite"


def choose_allocators() -> None:
    """Let Arrow and numpy allocate as all others do, unless somebody chose otherwise.

    Before either is imported: they look once.
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    os.environ.setdefault("NUMPY_MADVISE_HUGEPAGE", "0")


def limit_heaps() -> bool:
    """Let threads share `HEAPS` heaps; whether the C library knows how.

    For the start: a heap that a thread has stays its own.
    """
    mallopt = _of_libc("mallopt")
    return mallopt is not None and all(
        mallopt(option, value) == 1
        for option, value in (
            (_M_ARENA_MAX, HEAPS),
            (_M_TRIM_THRESHOLD, KEPT_BYTES),
            # Who sets one of the two sets both: else it stays at 128 KiB.
            (_M_MMAP_THRESHOLD, MAPPED_BYTES_MIN),
        )
    )


def give_back_free() -> None:
    """Give free pages of all heaps back to the system, if the C library knows how.

    Takes tens of milliseconds, during which others cannot allocate: not on the loop,
    and not while anybody waits for an answer.
    """
    trim = _of_libc("malloc_trim")
    if trim is not None:
        trim(0)


def _of_libc(name: str) -> Any:
    """A function of glibc's; None where the C library has not got it."""
    if not sys.platform.startswith("linux"):
        return None
    return getattr(ctypes.CDLL(None), name, None)


def give_back_compiler() -> int:
    """Unmap the compiler; the bytes of address space that were released.

    Does nothing where there is no ``/proc`` or no compiler was loaded. Any thread.
    """
    if not sys.platform.startswith("linux"):
        return 0
    libc = ctypes.CDLL(None, use_errno=True)
    given = 0
    for start, size in _clean_mappings(_COMPILER):
        if libc.madvise(c_void_p(start), c_size_t(size), _MADV_DONTNEED) == 0:
            given += size
    return given


def _clean_mappings(library: bytes) -> list[tuple[int, int]]:
    """(start, size) of what of a library is mapped exactly as its file has it.

    Not what may be written, nor where the loader has put addresses (``Anonymous``):
    such pages are in no file, and would come back wrong. The names of other files that
    are mapped, as segments of the log, are bytes and need not be letters.
    """
    try:
        lines = Path("/proc/self/smaps").read_bytes().split(b"\n")[:-1]
    except OSError:
        return []
    found = []
    start = end = 0
    for line in lines:
        words = line.split()
        if not words[0].endswith(b":"):
            start, end = (int(bound, 16) for bound in words[0].split(b"-"))
            name = words[-1].rpartition(b"/")[2]
            if b"w" in words[1] or not name.startswith(library):
                start = 0
        elif start and words[:2] == [b"Anonymous:", b"0"]:
            found.append((start, end - start))
    return found
