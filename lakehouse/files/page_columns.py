"""A column of a row group, out of its pages.

The problem: a row group of our files has nine columns, of which most say the same of
each row, and going through the pages of each costs as much as decompressing the values
of a small one. The idea: a column chunk is a function of its bytes, wherever it lies;
what short ones say of all rows is remembered, with the verification of their checksums.

Whatever is odd raises `Odd`. So nothing here may be less strict than Arrow is: each
page has a checksum, each length fits exactly, each row has its value. Of a page that
says that all its rows are null, that is all that is looked at, and of a dictionary that
no row names a value of, nothing: Arrow may refuse these, and their rows are null.

Source: the Parquet format.
"""

import threading
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import zstandard
from isal.isal_zlib import crc32

from lakehouse.files import page_kernels as kernels
from lakehouse.files.page_source import Bytes, Odd, RawPage, pages_in
from lakehouse.places import Ints

UNCOMPRESSED: Final = 0
ZSTD: Final = 6
"""These say it when bytes do not decompress to what the header promises."""
SHORT_BYTES: Final = 512
REMEMBERED: Final = 256
SMALL_BYTES: Final = 64 << 10
SMALL_ROWS: Final = 1_000
"""Before the last page none is smaller in both: each becomes batches of its own."""
_WIDTH_MAX: Final = 32
_INDEX_ENCODINGS: Final = (kernels.RLE_DICTIONARY, kernels.PLAIN_DICTIONARY)
_DICTIONARY_ENCODINGS: Final = (kernels.PLAIN, kernels.PLAIN_DICTIONARY)


class Shape(NamedTuple):
    """What the footer says of a column. ``bytes``: of its pages, decompressed;
    ``level_width``: bits of what says whether a value is null; ``is_list``: it has
    levels of repetition before these."""

    codec: int
    rows: int
    bytes: int
    level_width: int = 1
    is_list: bool = False


class Filled(NamedTuple):
    """The rows of a page whose places are known, and whose memory they are in."""

    rows: range
    held: list[Bytes]


class _Page(NamedTuple):
    is_dictionary: bool
    values: int
    encoding: int
    data: Bytes
    address: int
    """Of ``data``."""


class _Rows(NamedTuple):
    """A data page of a flat column: its first row; of each row whether it has a value;
    where the values begin."""

    page: _Page
    first: int
    levels: Ints
    at: int


class Column:
    """A column chunk by its pages, which are gone through once."""

    def __init__(self, pages: Iterator[RawPage], shape: Shape) -> None:
        self._raw, self._shape = pages, shape
        self._dictionary: _Page | None = None

    def integers(self, out: Ints) -> None:
        """Fill ``out`` with int64, none of which is null, kept as differences."""
        for page, first, levels, at in self._rows():
            if page.encoding != kernels.DELTA_BINARY_PACKED or not levels.all():
                raise Odd
            end = len(page.data)
            part = out[first : first + page.values]
            if kernels.deltas(page.data, at, end, part) != end:
                raise Odd

    def kinds(self, out: Ints) -> None:
        """Fill ``out`` with 1 where a dictionary's int32 is 1, else 0; none is null."""
        for page, first, levels, at in self._rows():
            if not levels.all():
                raise Odd
            known = _int32s(self._dictionary) == 1
            indices = _indices(page, at, page.values)
            if indices.max() >= len(known):
                raise Odd
            out[first : first + page.values] = known[indices]

    def byte_arrays(self, starts: Ints, lengths: Ints) -> Iterator[Filled]:
        """Fill in the address of each row's bytes, and how many: -1 for null. Yields
        the rows of each page; their memory is there until the next is asked for."""
        known: tuple[Ints, Ints] | None = None
        for rows in self._rows():
            page, first, levels, at = rows
            span = range(first, first + page.values)
            places = starts[span.start : span.stop], lengths[span.start : span.stop]
            count = int(levels.sum())
            if count and page.encoding != kernels.PLAIN:
                known = known or _entries(self._dictionary)
            if count == page.values and page.encoding == kernels.PLAIN:
                _find(page, at, *places)
            else:
                kernels.spread(levels, *_some(page, at, count, known), *places)
            yield Filled(span, [one.data for one in (self._dictionary, page) if one])

    def are_null(self) -> bool:
        """Whether no row has a value: all its levels are zero."""
        rows = 0
        for page in self._pages():
            if page.is_dictionary:
                continue
            self._check_values(page, rows)
            levels, at = np.empty(page.values, np.int64), 0
            if self._shape.is_list:
                at = _levels(page, at, 1, levels)
                if levels.any():
                    return False
            _levels(page, at, self._shape.level_width, levels)
            if levels.any():
                return False
            rows += page.values
        if rows != self._shape.rows:
            raise Odd
        return True

    def _rows(self) -> Iterator[_Rows]:
        """The data pages."""
        first = 0
        for page in self._pages():
            if page.is_dictionary:
                self._dictionary = page
                continue
            self._check_values(page, first)
            levels = np.empty(page.values, np.int64)
            at = _levels(page, 0, 1, levels)
            yield _Rows(page, first, levels, at)
            first += page.values
        if first != self._shape.rows:
            raise Odd

    def _check_values(self, page: _Page, first: int) -> None:
        left = self._shape.rows - first
        is_small = page.values < SMALL_ROWS and len(page.data) < SMALL_BYTES
        if not 0 < page.values <= left or (is_small and page.values < left):
            raise Odd

    def _pages(self) -> Iterator[_Page]:
        """The pages, verified; a dictionary is the first."""
        size = 0
        for number, (fields, body) in enumerate(self._raw):
            is_dictionary = fields[kernels.TYPE] == kernels.DICTIONARY_PAGE
            is_data = fields[kernels.TYPE] == kernels.DATA_PAGE
            has_levels = fields[kernels.LEVELS] == kernels.RLE
            size += fields[kernels.BYTES]
            if not (number == 0 if is_dictionary else is_data and has_levels):
                raise Odd
            if size > self._shape.bytes:
                raise Odd
            yield self._page(fields, body, is_dictionary)

    def _page(self, fields: list[int], body: Bytes, is_dictionary: bool) -> _Page:
        if not fields[kernels.HAS_CRC] or crc32(body) != fields[kernels.CRC]:
            raise Odd
        data, address = self._decompressed(body, fields[kernels.BYTES], is_dictionary)
        values, encoding = fields[kernels.VALUES], fields[kernels.ENCODING]
        return _Page(is_dictionary, values, encoding, data, address)

    def _decompressed(self, body: Bytes, size: int, is_kept: bool) -> tuple[Bytes, int]:
        """The bytes of a page, and their address. ``is_kept``: they are there when the
        next page is read."""
        if self._shape.codec == UNCOMPRESSED:
            if len(body) != size:
                raise Odd
            data = body.copy() if is_kept else body
            return data, data.ctypes.data
        buffer = _unzipped(body, size)
        if buffer.size != size:
            raise Odd
        return np.frombuffer(buffer, np.uint8), buffer.address


class _Zstd(threading.local):
    """One of each thread."""

    def __init__(self) -> None:
        self.frame = zstandard.ZstdDecompressor()


_BIG_ZSTD: Final[Any] = pa.Codec("zstd")
"""Its memory is used again, but each time it makes what it works with, which takes
longer than most pages. It keeps nothing between two calls: any thread may use it."""
_SMALL_ZSTD: Final = _Zstd()
_SIZES_UNKNOWN: Final = (zstandard.CONTENTSIZE_UNKNOWN, -1)


def _unzipped(body: Any, size: int) -> Any:
    """The one frame that a page is, of so many bytes, as an Arrow buffer. A small one
    is asked before it is given memory: a frame may say any number."""
    try:
        if size > SMALL_BYTES:
            return _BIG_ZSTD.decompress(body, size)
        said = zstandard.frame_content_size(body)
        if said != size and said not in _SIZES_UNKNOWN:
            raise Odd
        return pa.py_buffer(
            _SMALL_ZSTD.frame.decompress(
                body, max_output_size=size, allow_extra_data=False
            )
        )
    except (zstandard.ZstdError, OSError) as error:
        raise Odd from error


def are_null(data: Bytes, shape: Shape) -> bool:
    """Whether no row of a column chunk has a value. Raises as `Column`."""
    if len(data) <= SHORT_BYTES:
        return _are_null(data.tobytes(), shape)
    return Column(pages_in(data), shape).are_null()


def kind_of(data: Bytes, shape: Shape) -> int | None:
    """What all rows of a short column chunk have as `Column.kinds`; None if they have
    not the same. Raises as `Column`."""
    return _kind(data.tobytes(), shape) if len(data) <= SHORT_BYTES else None


@lru_cache(REMEMBERED)
def _are_null(data: bytes, shape: Shape) -> bool:
    return Column(pages_in(np.frombuffer(data, np.uint8)), shape).are_null()


@lru_cache(REMEMBERED)
def _kind(data: bytes, shape: Shape) -> int | None:
    kinds = np.empty(shape.rows, np.int64)
    Column(pages_in(np.frombuffer(data, np.uint8)), shape).kinds(kinds)
    return int(kinds[0]) if (kinds == kinds[0]).all() else None


def _levels(page: _Page, at: int, width: int, out: Ints) -> int:
    """Fill ``out`` with the levels that stand at ``at``; where they end."""
    begin = at + 4
    end = begin + int.from_bytes(page.data[at:begin].tobytes(), "little")
    if not begin <= end <= len(page.data):
        raise Odd
    if kernels.runs(page.data, begin, end, width, out) != end:
        raise Odd
    return end


def _some(
    page: _Page, at: int, count: int, known: tuple[Ints, Ints] | None
) -> tuple[Ints, Ints]:
    """Where ``count`` byte arrays of a page lie, and their lengths; ``known``: those of
    the dictionary."""
    found = np.empty(count, np.int64), np.empty(count, np.int64)
    if page.encoding == kernels.PLAIN:
        _find(page, at, *found)
    elif known is not None:
        indices = _indices(page, at, count)
        if kernels.look_up(indices, *known, *found) != count:
            raise Odd
    return found


def _indices(page: _Page, at: int, count: int) -> Ints:
    """Which values of the dictionary a page has."""
    end = len(page.data)
    if page.encoding not in _INDEX_ENCODINGS or at >= end:
        raise Odd
    width, indices = int(page.data[at]), np.empty(count, np.int64)
    if width > _WIDTH_MAX:
        raise Odd
    if kernels.runs(page.data, at + 1, end, width, indices) != end:
        raise Odd
    return indices


def _int32s(page: _Page | None) -> npt.NDArray[np.int32]:
    """What a dictionary has."""
    if page is None or page.encoding not in _DICTIONARY_ENCODINGS:
        raise Odd
    if len(page.data) != 4 * page.values:
        raise Odd
    return np.frombuffer(page.data, np.int32)


def _entries(page: _Page | None) -> tuple[Ints, Ints]:
    """Where the byte arrays of a dictionary lie, and their lengths."""
    if page is None or page.encoding not in _DICTIONARY_ENCODINGS:
        raise Odd
    if not 0 <= page.values <= len(page.data) // 4:
        raise Odd
    found = np.empty(page.values, np.int64), np.empty(page.values, np.int64)
    _find(page, 0, *found)
    return found


def _find(page: _Page, at: int, starts: Ints, lengths: Ints) -> None:
    """Where the byte arrays of a page lie, from ``at`` to its end."""
    data, end = page.data, len(page.data)
    if kernels.byte_arrays(data, at, end, page.address, starts, lengths) != end:
        raise Odd
