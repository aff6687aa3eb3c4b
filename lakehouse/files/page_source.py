"""The pages of a column chunk, as they are in a file: one after the other.

The problem: a row group of ten megabytes that is read at once is out of the processor's
cache before the last of it is decompressed, and then each step waits for memory: three
tenths of a second a gigabyte. The idea: a page is read when its turn comes, into memory
that the one before was in; and with it the first bytes behind it, which are the header
that says how long the next one is.

Raises `Odd` wherever the bytes are not what `page_kernels` knows.
"""

import os
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from lakehouse.files.page_kernels import BODY, ODD, PAGE_FIELDS, STORED, find_page

PEEK_BYTES: Final = 256
"""A longer header is left to Arrow; ours have forty."""
WINDOW_BYTES: Final = (1 << 20) + (1 << 16)
"""Most pages are of a mebibyte."""
PAGE_BYTES_MAX: Final = 64 << 20

Bytes = npt.NDArray[np.uint8]
Take = Callable[[int], Bytes]
"""Gives so many bytes, of any content."""


class Odd(Exception):
    """Left to Arrow."""


class RawPage(NamedTuple):
    """The fields of a page's header, as `page_kernels` counts them, and its body as it
    is in the file, there until the next page is asked for."""

    fields: list[int]
    body: Bytes


def pages_in(data: Bytes) -> Iterator[RawPage]:
    """The pages of a column chunk in memory."""
    page, at = np.empty(PAGE_FIELDS, np.int64), 0
    while at < len(data):
        if find_page(data, at, len(data), page) == ODD:
            raise Odd
        fields = page.tolist()
        at = fields[BODY] + fields[STORED]
        if at > len(data):
            raise Odd
        yield RawPage(fields, data[fields[BODY] : at])


def pages_of(descriptor: int, start: int, stored: int, take: Take) -> Iterator[RawPage]:
    """The pages of a column chunk of ``stored`` bytes at ``start`` of a file."""
    page, end = np.empty(PAGE_FIELDS, np.int64), start + stored
    window = take(min(WINDOW_BYTES, stored))
    have = _read(descriptor, window[: min(PEEK_BYTES, stored)], start)
    while start < end:
        if find_page(window, 0, have, page) == ODD:
            raise Odd
        fields = page.tolist()
        size = fields[BODY] + fields[STORED]
        if size > min(end - start, PAGE_BYTES_MAX):
            raise Odd
        wanted = min(size + PEEK_BYTES, end - start)
        if wanted > len(window):
            window, before = take(wanted), window
            window[:have] = before[:have]
        if wanted > have:
            have += _read(descriptor, window[have:wanted], start + have)
        yield RawPage(fields, window[fields[BODY] : size])
        start += size
        have -= size
        window[:have] = window[size : size + have].copy()


def _read(descriptor: int, into: Bytes, at: int) -> int:
    """How many bytes there were: as many as there is room for."""
    if os.preadv(descriptor, [into.data], at) != len(into):
        raise Odd
    return len(into)
