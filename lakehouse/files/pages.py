"""A row group of a file like ours, read page by page into places in memory.

The problem: half of what a cold fetch costs is Arrow's: a checksum of pages at a
twentieth of what the processor can do, a copy of each value into new memory, half a
millisecond for each row group. The idea: where a footer says that the columns are as
those that we write, their pages are read here, checksums by carry-less multiplication,
compiled loops to say where each value lies (`page_columns`). Whoever makes batches
takes the values of one page while they are in the processor's cache (`page_source`).

Nothing is decided here of a file that is damaged, or another's: whatever is odd gives
None, and the row group is read by Arrow, which finds the same and tells, or finds more
than we understand.

The price: such a row group is read twice.

Source: the Parquet format.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from lakehouse.files.page_columns import (
    SHORT_BYTES,
    UNCOMPRESSED,
    ZSTD,
    Column,
    Shape,
    are_null,
    kind_of,
)
from lakehouse.files.page_kernels import rise
from lakehouse.files.page_source import Bytes, Odd, Take, pages_in, pages_of
from lakehouse.files.parquet_footer import (
    BYTE_ARRAY,
    INT32,
    INT64,
    ColumnFacts,
    GroupFacts,
)
from lakehouse.places import (
    HEADER_COUNT,
    HEADERS_AT,
    KEY_AT,
    KEY_LENGTH,
    KIND,
    OFFSET,
    ROW_FIELDS,
    TIMESTAMP,
    VALUE_AT,
    VALUE_LENGTH,
    Ints,
    Places,
)
from lakehouse.regular import open_descriptor
from lakehouse.schema import READ, WRITE

BYTES_MAX: Final = 64 << 20
"""Of the columns of a row group, decompressed; a larger one is left to Arrow."""
ROWS_MAX: Final = 1 << 16
_LEAVES: Final = (
    *READ[:-1], "headers.list.element.key", "headers.list.element.value",
)  # fmt: skip
_PHYSICAL: Final = (INT64, INT64, INT32, BYTE_ARRAY, BYTE_ARRAY, BYTE_ARRAY, BYTE_ARRAY)
_OFFSETS, _TIMESTAMPS, _KINDS, _KEYS, _VALUES, *_HEADERS = range(len(_LEAVES))
_MAGIC_BYTES: Final = 4
_HEADER_LEVEL_BITS: Final = 3
"""Null list, no pair, null pair, null text, text: as our type has it."""

T = TypeVar("T")


class Layout(NamedTuple):
    """Where the columns of a row group lie. ``chunks``: of each the start in the file,
    bytes there and decompressed, int64."""

    codec: int
    rows: int
    chunks: bytes


def leaves_of(schema: pa.Schema) -> tuple[int, ...] | None:
    """By index, the columns of a file that are like ours: those of `READ`, and of the
    headers both; None if they are others. ``schema``: the file's, as Arrow sees it.
    """
    if any(schema.names.count(name) != 1 for name in READ):
        return None
    fields = [schema.field(name) for name in READ]
    if not all(field.nullable for field in fields):
        return None
    if [field.type for field in fields] != [WRITE.field(name).type for name in READ]:
        return None
    begins = list(accumulate((_leaves(field.type) for field in schema), initial=0))
    firsts = [begins[schema.get_field_index(name)] for name in READ]
    return (*firsts, firsts[-1] + 1)


def _leaves(kind: pa.DataType) -> int:
    """How many columns a file has for a type."""
    if not kind.num_fields:
        return 1
    return sum(_leaves(kind.field(n).type) for n in range(kind.num_fields))


def layout_of(group: GroupFacts, leaves: Sequence[int]) -> Layout | None:
    """Where that is in a row group; None if it is not to be read here."""
    if max(leaves) >= len(group.columns):
        return None
    columns = [group.columns[index] for index in leaves]
    codec = columns[0].codec
    alike = {(column.codec, column.values) for column in columns}
    is_known = codec in (UNCOMPRESSED, ZSTD) and alike == {(codec, group.rows)}
    size = sum(column.bytes for column in columns)
    if not (is_known and 0 < group.rows <= ROWS_MAX and size <= BYTES_MAX):
        return None
    if not all(map(_is_like_ours, columns, _LEAVES, _PHYSICAL)):
        return None
    chunks = [(one.start, one.compressed, one.bytes) for one in columns]
    known = np.array(chunks, np.int64).tobytes()
    return Layout(codec, group.rows, known)


def _is_like_ours(column: ColumnFacts, path: str, physical: int) -> bool:
    is_placed = _MAGIC_BYTES <= column.start < 1 << 62
    is_sized = 0 < column.compressed <= BYTES_MAX and column.bytes > 0
    is_named = column.path == path and column.physical == physical
    return is_placed and is_sized and is_named


def read_places(
    path: str, layout: Layout, take: Take, use: Callable[[Places], T]
) -> list[T] | None:
    """What ``use`` makes of the rows of a row group, a part at a time, in order: whose
    places are gone when it returns. None if it is another than our own are: a row has
    headers, or lacks an offset or timestamp, or offsets do not rise, or it is damaged.

    Raises OSError as ``open`` does.
    """
    chunks = np.frombuffer(layout.chunks, np.int64).reshape(len(_LEAVES), 3).tolist()
    descriptor = open_descriptor(path)
    try:
        found = _places(descriptor, layout, chunks, take)
        return [use(part) for part in found]
    except (Odd, pa.ArrowException):
        return None
    finally:
        os.close(descriptor)


def _places(
    descriptor: int, layout: Layout, chunks: list[list[int]], take: Take
) -> Iterator[Places]:
    """All that is small first; then the values, page by page."""
    shapes = [Shape(layout.codec, layout.rows, size) for _, _, size in chunks]
    before, behind = chunks[:_VALUES], chunks[_VALUES + 1 :]
    _check_no_headers(shapes, _read(descriptor, behind))
    rows = np.empty((ROW_FIELDS, layout.rows), np.int64)
    columns = _read(descriptor, before)
    _fill_numbers(rows, columns, shapes)
    held = _fill_keys(rows, columns[_KEYS], shapes[_KEYS])
    start, stored, _ = chunks[_VALUES]
    values = Column(pages_of(descriptor, start, stored, take), shapes[_VALUES])
    no_headers = np.zeros((4, 0), np.int64)
    for filled in values.byte_arrays(rows[VALUE_AT], rows[VALUE_LENGTH]):
        part = rows[:, filled.rows.start : filled.rows.stop]
        yield Places(part, no_headers, (0, 0, 0, 0), (held, filled.held))


def _read(descriptor: int, chunks: list[list[int]]) -> list[Bytes]:
    """The bytes of columns that lie near to each other, by one read."""
    start = min(chunk[0] for chunk in chunks)
    size = max(chunk[0] + chunk[1] for chunk in chunks) - start
    if size > BYTES_MAX:
        raise Odd
    data = np.empty(size, np.uint8)
    if os.preadv(descriptor, [data.data], start) != size:
        raise Odd
    return [data[at - start :][:stored] for at, stored, _ in chunks]


def _check_no_headers(shapes: list[Shape], columns: list[Bytes]) -> None:
    for shape, column in zip(shapes[_VALUES + 1 :], columns, strict=True):
        as_list = shape._replace(level_width=_HEADER_LEVEL_BITS, is_list=True)
        if not are_null(column, as_list):
            raise Odd


def _fill_numbers(rows: Ints, columns: list[Bytes], shapes: list[Shape]) -> None:
    """Offsets, timestamps and their types."""
    raw = [pages_in(column) for column in columns]
    micros = np.empty(rows.shape[1], np.int64)
    Column(raw[_OFFSETS], shapes[_OFFSETS]).integers(rows[OFFSET])
    Column(raw[_TIMESTAMPS], shapes[_TIMESTAMPS]).integers(micros)
    if not rise(rows[OFFSET], micros, rows[TIMESTAMP]):
        raise Odd
    kind = kind_of(columns[_KINDS], shapes[_KINDS])
    if kind is None:
        Column(raw[_KINDS], shapes[_KINDS]).kinds(rows[KIND])
    else:
        rows[KIND] = kind
    rows[HEADERS_AT], rows[HEADER_COUNT] = 0, 0


def _fill_keys(rows: Ints, column: Bytes, shape: Shape) -> list[Any]:
    """What their memory is."""
    if len(column) <= SHORT_BYTES and are_null(column, shape):
        rows[KEY_AT], rows[KEY_LENGTH] = 0, -1
        return []
    found = Column(pages_in(column), shape).byte_arrays(rows[KEY_AT], rows[KEY_LENGTH])
    return [column, *(filled.held for filled in found)]
