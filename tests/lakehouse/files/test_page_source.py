"""Pages one after the other, out of memory and out of a file."""

import os
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from lakehouse.files.page_kernels import CRC, STORED
from lakehouse.files.page_source import (
    PEEK_BYTES,
    WINDOW_BYTES,
    Odd,
    RawPage,
    pages_in,
    pages_of,
)
from tests.support.paged import page
from tests.support.placed import taken

SIZES = [
    [0],
    [1],
    [PEEK_BYTES - 60, 3],
    [5, 0, 70_000, 1, WINDOW_BYTES, 2, 3 * WINDOW_BYTES, 7],
]


def bodies(sizes: list[int]) -> list[bytes]:
    return [os.urandom(size) for size in sizes]


def seen(pages: Iterator[RawPage]) -> list[bytes]:
    found = []
    for fields, body in pages:
        assert fields[STORED] == len(body)
        assert fields[CRC] == zlib.crc32(body)
        found.append(body.tobytes())
    return found


@pytest.fixture
def file(tmp_path: Path) -> Iterator[int]:
    descriptor = os.open(tmp_path / "f", os.O_RDWR | os.O_CREAT)
    yield descriptor
    os.close(descriptor)


@pytest.mark.parametrize("sizes", SIZES)
def test_pages_come_in_their_order(file: int, sizes: list[int]) -> None:
    some = bodies(sizes)
    chunk = b"".join(page(body, values=1) for body in some)
    assert seen(pages_in(np.frombuffer(chunk, np.uint8))) == some
    os.pwrite(file, b"before" + chunk + b"behind" * 100, 0)
    assert seen(pages_of(file, 6, len(chunk), taken)) == some


@pytest.mark.parametrize("less", [1, 30, 100])
def test_what_is_cut_is_odd(file: int, less: int) -> None:
    chunk = b"".join(page(body, values=1) for body in bodies([300, 300]))
    os.pwrite(file, chunk[:-less], 0)
    with pytest.raises(Odd):
        seen(pages_in(np.frombuffer(chunk[:-less], np.uint8)))
    for length in (len(chunk), len(chunk) - less):
        with pytest.raises(Odd):
            seen(pages_of(file, 0, length, taken))


def test_memory_is_bounded_by_the_column(file: int) -> None:
    """A header may say anything."""
    chunk = page(b"few", values=1, stored=1 << 30)
    os.truncate(file, 1 << 31)
    os.pwrite(file, chunk, 0)
    asked: list[int] = []

    def take(size: int) -> "np.ndarray[tuple[int], np.dtype[np.uint8]]":
        asked.append(size)
        return np.zeros(size, np.uint8)

    with pytest.raises(Odd):
        seen(pages_of(file, 0, 1 << 31, take))
    with pytest.raises(Odd):
        seen(pages_of(file, 0, len(chunk), take))
    assert max(asked) <= WINDOW_BYTES
