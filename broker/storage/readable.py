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
from typing import Final

from broker.storage.files import Files

PAGE_BYTES: Final = 4096
PIECE_BYTES: Final = 1 << 20


def read(files: Files, file: int, length: int, position: int) -> bytes:
    """As `Files.pread`, with zeros for pages that cannot be read. Raises OSError for
    what is no fault of single pages."""
    try:
        return files.pread(file, length, position)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
    end = min(position + length, files.size(file))
    ends = [*range(position - position % PAGE_BYTES, end, PAGE_BYTES)[1:], end]
    pieces = []
    for upto in ends:
        pieces.append(_page(files, file, upto - position, position))
        position = upto
    return b"".join(pieces)


@contextmanager
def view(files: Files, file: int, size: int, start: int = 0) -> Iterator[memoryview]:
    """The first ``size`` bytes of a file, of which only those from ``start`` on may be
    looked at; unmapped at the end of the context. Raises OSError."""
    if not _is_readable(files, file, size, start):
        yield memoryview(bytes(start) + read(files, file, size - start, start))
        return
    mapped = files.map(file, size)
    try:
        yield mapped.view
    finally:
        mapped.close()


def _is_readable(files: Files, file: int, size: int, start: int) -> bool:
    try:
        for position in range(start, size, PIECE_BYTES):
            files.pread(file, min(PIECE_BYTES, size - position), position)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        return False
    return True


def _page(files: Files, file: int, length: int, position: int) -> bytes:
    try:
        return files.pread(file, length, position)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        return bytes(length)
