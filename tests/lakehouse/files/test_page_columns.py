"""Columns by hand: with sound checksums, whatever else is odd is refused."""

import tracemalloc

import numpy as np
import pytest
import zstandard

from lakehouse.files import page_columns
from lakehouse.files.page_columns import (
    REMEMBERED,
    SHORT_BYTES,
    SMALL_BYTES,
    SMALL_ROWS,
    UNCOMPRESSED,
    ZSTD,
    Column,
    Shape,
    are_null,
    kind_of,
)
from lakehouse.files.page_kernels import DELTA_BINARY_PACKED, RLE_DICTIONARY
from lakehouse.files.page_source import Odd, pages_in
from tests.support.paged import levels, page, plain

ENTRIES = [b"zero", b"one", b""]
DICTIONARY = page(plain(ENTRIES), 3, is_dictionary=True)
BIG = 1 << 20


def of(data: bytes) -> "np.ndarray[tuple[int], np.dtype[np.uint8]]":
    return np.frombuffer(data, np.uint8)


def byte_arrays(chunk: bytes, rows: int, **shape: int) -> list[tuple[int, ...]]:
    """The rows of each page, and how long the values are."""
    said = {"codec": UNCOMPRESSED, "rows": rows, "bytes": BIG, **shape}
    column = Column(pages_in(of(chunk)), Shape(**said))  # type: ignore[arg-type]
    starts, lengths = np.zeros(rows, np.int64), np.full(rows, -7, np.int64)
    filled = [span.rows for span in column.byte_arrays(starts, lengths)]
    return [tuple(lengths[span.start : span.stop].tolist()) for span in filled]


def indexed(indices: bytes, count: int, width: int = 2) -> bytes:
    return page(levels(count) + bytes([width]) + indices, count, RLE_DICTIONARY)


def test_sound_ones_are_read() -> None:
    values = page(levels(2) + plain([b"a", b"bcd"]), 2)
    assert byte_arrays(values, 2) == [(1, 3)]
    assert byte_arrays(DICTIONARY + indexed(b"\x04\x01\x02\x02", 3), 3) == [(3, 3, 0)]
    assert byte_arrays(page(levels(3, 0), 3), 3) == [(-1, -1, -1)]


HOSTILE = {
    "no pages": b"",
    "no row": page(levels(0) + plain([]), 0),
    "fewer rows": page(levels(1) + plain([b"a"]), 1),
    "more rows": page(levels(3) + plain([b"a"] * 3), 3),
    "fewer levels": page(levels(1) + plain([b"a", b"b"]), 2),
    "more levels": page(levels(3) + plain([b"a", b"b"]), 2),
    "a level of two": page(levels(2, 2) + plain([b"a", b"b"]), 2),
    "levels behind the end": page(b"\xff\xff\xff\x7f" + plain([b"a", b"b"]), 2),
    "levels of no bytes": page(b"\x00\x00\x00\x00" + plain([b"a", b"b"]), 2),
    "no levels": page(b"\x02\x00", 2),
    "levels in bits": page(levels(2) + plain([b"a", b"b"]), 2, levels=4),
    "fewer values": page(levels(2) + plain([b"a"]), 2),
    "more values": page(levels(2) + plain([b"a"] * 3), 2),
    "a value that is cut": page(levels(2) + plain([b"a", b"bcd"])[:-1], 2),
    "a value of gigabytes": page(levels(2) + plain([b"a"]) + b"\xff\xff\xff\x7f", 2),
    "a negative length": page(levels(2) + plain([b"a"]) + b"\xff\xff\xff\xff", 2),
    "bytes left over": page(levels(2) + plain([b"a", b"b"]) + b"\0", 2),
    "another checksum": page(levels(2) + plain([b"a", b"b"]), 2, crc=7),
    "another size": page(levels(2) + plain([b"a", b"b"]), 2, size=17),
    "more than the column": page(levels(2) + plain([b"a" * BIG, b"b"]), 2),
    "an unknown encoding": page(levels(2) + plain([b"a", b"b"]), 2, 6),
    "a dictionary behind": page(levels(2) + plain([b"a", b"b"]), 2) + DICTIONARY,
    "two dictionaries": 2 * DICTIONARY + indexed(b"\x04\x01", 2),
    "no dictionary": indexed(b"\x04\x01", 2),
    "what it does not have": DICTIONARY + indexed(b"\x04\x03", 2),
    "indices of 33 bits": DICTIONARY + indexed(b"\x04\x01\x00\x00\x00\x00", 2, 33),
    "indices of 255 bits": DICTIONARY + indexed(b"\x04" + b"\x01" * 32, 2, 255),
    "fewer indices": DICTIONARY + indexed(b"\x02\x01", 2),
    "no indices": DICTIONARY + page(levels(2), 2, RLE_DICTIONARY),
    "a dictionary of billions": page(plain([b"a"]), 1 << 31, is_dictionary=True)
    + indexed(b"\x04\x00", 2),
    "a dictionary that is cut": page(plain([b"a"]), 2, is_dictionary=True)
    + indexed(b"\x04\x00", 2),
}


@pytest.mark.parametrize("why", HOSTILE)
def test_what_is_odd_is_refused(why: str) -> None:
    with pytest.raises(Odd):
        byte_arrays(HOSTILE[why], 2)


SMALL = levels(2) + plain([b"a", b"b"])
LARGE = levels(2) + plain([bytes(SMALL_BYTES), b"b"])


def zipped(body: bytes, *, says_size: bool = True) -> bytes:
    return zstandard.ZstdCompressor(write_content_size=says_size).compress(body)


def unzipped(data: bytes, size: int) -> list[tuple[int, ...]]:
    """The lengths of a page that says that it has so many bytes."""
    return byte_arrays(page(data, 2, size=size), 2, codec=ZSTD)


def test_a_small_frame_is_read_whether_or_not_it_says_its_size() -> None:
    for says_size in (True, False):
        data = zipped(SMALL, says_size=says_size)
        assert unzipped(data, len(SMALL)) == [(1, 1)]


def test_a_large_frame_is_read() -> None:
    assert unzipped(zipped(LARGE), len(LARGE)) == [(SMALL_BYTES, 1)]


@pytest.mark.parametrize("body", [SMALL, LARGE])
@pytest.mark.parametrize("off", [-1, 1, SMALL_BYTES, -SMALL_BYTES])
def test_another_size_than_the_pages_is_refused(body: bytes, off: int) -> None:
    for says_size in (True, False):
        with pytest.raises(Odd):
            unzipped(zipped(body, says_size=says_size), max(0, len(body) + off))


@pytest.mark.parametrize("body", [SMALL, LARGE])
def test_what_does_not_decompress_is_refused(body: bytes) -> None:
    frame, bomb = zipped(body), zipped(bytes(1 << 24))
    for data in (body, frame[:-1], frame * 2, frame + b"\0", b"", bomb):
        with pytest.raises(Odd):
            unzipped(data, len(body))


def test_no_memory_is_given_to_a_frame_for_what_it_says() -> None:
    """One that says 2 GiB, and a page that does not."""
    head = b"\x28\xb5\x2f\xfd\xa0" + (1 << 31).to_bytes(4, "little")
    data = head + zipped(SMALL)[5:]
    tracemalloc.start()
    try:
        with pytest.raises(Odd):
            unzipped(data, len(SMALL))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 1 << 20


def test_pages_that_would_make_tiny_batches_are_left() -> None:
    small = page(levels(1) + plain([b"a"]), 1)
    with pytest.raises(Odd):
        byte_arrays(small + small, 2)
    many = page(levels(SMALL_ROWS) + plain([b""] * SMALL_ROWS), SMALL_ROWS)
    large = page(levels(1) + plain([b"x" * SMALL_BYTES]), 1)
    found = byte_arrays(many + large + small, SMALL_ROWS + 2)
    assert [len(rows) for rows in found] == [SMALL_ROWS, 1, 1]


def integers(chunk: bytes, rows: int) -> list[int]:
    out = np.zeros(rows, np.int64)
    Column(pages_in(of(chunk)), Shape(UNCOMPRESSED, rows, BIG)).integers(out)
    return out.tolist()


def test_integers_are_differences_and_none_is_null() -> None:
    five = b"\x80\x01\x04\x02\x0a\x02\x00\x00\x00\x00"  # 5, and 1 more
    assert integers(page(levels(2) + five, 2, DELTA_BINARY_PACKED), 2) == [5, 6]
    for odd in (
        page(levels(2, 0), 2, DELTA_BINARY_PACKED),
        page(levels(2) + five, 2),
        page(levels(2) + five + b"\0", 2, DELTA_BINARY_PACKED),
        page(levels(2) + five[:-1], 2, DELTA_BINARY_PACKED),
        page(levels(2) + b"\x80\x01\x00\x02\x0a\x02", 2, DELTA_BINARY_PACKED),
        page(levels(2) + b"\x00\x04\x02\x0a\x02\0\0\0\0", 2, DELTA_BINARY_PACKED),
    ):
        with pytest.raises(Odd):
            integers(odd, 2)


def test_kinds_are_one_or_nought() -> None:
    known = page(b"\0\0\0\0\1\0\0\0\2\0\0\0", 3, is_dictionary=True)
    shape, out = Shape(UNCOMPRESSED, 3, BIG), np.zeros(3, np.int64)
    chunk = known + indexed(b"\x03\x24\x00", 3)
    assert kind_of(of(chunk), shape) is None
    Column(pages_in(of(chunk)), shape).kinds(out)
    assert out.tolist() == [0, 1, 0]
    assert kind_of(of(known + indexed(b"\x06\x01", 3)), shape) == 1
    assert kind_of(of(bytes(SHORT_BYTES + 1)), shape) is None
    for odd in (
        known + indexed(b"\x06\x03", 3),
        page(b"\0\0\0", 1, is_dictionary=True) + indexed(b"\x06\x00", 3),
        indexed(b"\x06\x00", 3),
        known + page(levels(3, 0), 3),
    ):
        with pytest.raises(Odd):
            kind_of(of(odd), shape)


def test_lists_are_null_where_both_levels_are() -> None:
    shape = Shape(UNCOMPRESSED, 2, BIG, level_width=3, is_list=True)
    assert are_null(of(page(2 * levels(2, 0), 2)), shape)
    assert not are_null(of(page(levels(2, 0) + levels(2, 1), 2)), shape)
    assert not are_null(of(page(levels(2, 1) + levels(2, 0), 2)), shape)
    for odd in (page(levels(2, 0), 2), page(2 * levels(1, 0), 1)):
        with pytest.raises(Odd):
            are_null(of(odd), shape)


def test_what_short_columns_say_is_remembered_with_all_it_depends_on() -> None:
    shape = Shape(UNCOMPRESSED, 2, BIG)
    page_columns._are_null.cache_clear()
    for _ in range(3):
        assert are_null(of(page(levels(2, 0), 2)), shape)
        assert not are_null(of(page(levels(2) + plain([b"", b""]), 2)), shape)
        with pytest.raises(Odd):
            are_null(of(page(levels(2, 0), 2)), shape._replace(rows=3))
    assert page_columns._are_null.cache_info().hits == 4
    long = page(levels(2, 0) + bytes(SHORT_BYTES), 2)
    assert are_null(of(long), shape)
    assert page_columns._are_null.cache_info().currsize == 2 <= REMEMBERED
