"""Reading what the disk may be unable to read.

The problem. A sector that cannot be read is an error of one call where a file is read,
but in a mapped file it is a signal that ends the process, without a word, at each start
again.

The idea. To who judges what bytes say such a page is a damaged one: zeros stand for
it. Before a mapped file is looked into, what will be looked at is read once; only where
that fails a copy is made.

The price. That reading: some 0.1 ms for each MiB.
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from broker.storage.files import Files
from broker.storage.segment import Holes

PAGE_BYTES: Final = 4096
PIECE_BYTES: Final = 1 << 20


def read(files: Files, file: int, length: int, position: int) -> bytes:
    """As `Files.pread`, with zeros for pages that cannot be read. Raises OSError for
    what is no fault of single pages."""
    whole = _readable(files, file, length, position)
    if whole is not None:
        return whole
    end = min(position + length, files.size(file))
    pages = _pages(files, file, position, end)
    return b"".join(page or bytes(size) for _, size, page in pages)


def pieces(
    files: Files, file: int, start: int, end: int
) -> Iterator[tuple[int, bytes]]:
    """The bytes [start, end) and where each piece lies, but for pages that cannot be
    read. Raises OSError as `read` does."""
    for position in range(start, end, PIECE_BYTES):
        upto = min(position + PIECE_BYTES, end)
        piece = _readable(files, file, upto - position, position)
        if piece is not None:
            yield position, piece
            continue
        for place, _, page in _pages(files, file, position, upto):
            if page is not None:
                yield place, page


class View(NamedTuple):
    """Bytes of a file; ``unread``: the [start, end) that zeros stand for in them,
    ascending, pages that follow each other as one."""

    bytes: memoryview
    unread: Holes


@contextmanager
def view(files: Files, file: int, size: int, start: int = 0) -> Iterator[View]:
    """The first ``size`` bytes of a file, of which only those from ``start`` on may be
    looked at; unmapped at the end of the context. Raises OSError."""
    if not is_readable(files, file, size, start):
        copy, unread = bytearray(size), list[tuple[int, int]]()
        for place, length, page in _pages(files, file, start, size):
            if page is None:
                is_next = bool(unread) and unread[-1][1] == place
                first = unread.pop()[0] if is_next else place
                unread.append((first, place + length))
            else:
                copy[place : place + len(page)] = page
        yield View(memoryview(copy).toreadonly(), tuple(unread))
        return
    mapped = files.map(file, size)
    try:
        yield View(mapped.view, ())
    finally:
        mapped.close()


def is_readable(files: Files, file: int, size: int, start: int = 0) -> bool:
    """Whether the disk can read all of the bytes [start, size). Raises OSError as
    `read` does."""
    for position in range(start, size, PIECE_BYTES):
        length = min(PIECE_BYTES, size - position)
        if _readable(files, file, length, position) is None:
            return False
    return True


def _pages(
    files: Files, file: int, start: int, end: int
) -> Iterator[tuple[int, int, bytes | None]]:
    """Where each page of [start, end) lies, how many bytes of it are asked for, and
    these; None if they cannot be read."""
    for upto in (*range(start - start % PAGE_BYTES, end, PAGE_BYTES)[1:], end):
        yield start, upto - start, _readable(files, file, upto - start, start)
        start = upto


def _readable(files: Files, file: int, length: int, position: int) -> bytes | None:
    """As `Files.pread`; None if one of the pages cannot be read."""
    try:
        return files.pread(file, length, position)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        return None
