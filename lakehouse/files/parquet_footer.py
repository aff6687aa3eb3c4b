"""What a Parquet footer says of row groups and their columns, as plain values.

The problem: a footer has no checksum, and Arrow checks what it says of a column (its
type, its statistics, its histograms) only when that is asked for. Readers of rows get
an error then; who asks the metadata from Python (``row_group(n).column(m)``) has an
exception of C++ that nothing catches, and that ends the process. One flipped bit in one
file took the broker and the compactor down, and again at each start. The idea: what is
wanted of it is read here, out of its bytes, where whatever is odd is an error.

The price: 0.3 ms a row group of ten columns, once for each footer that is parsed.

Source: ``parquet.thrift`` of the Parquet format; Thrift's compact protocol.
"""

import os
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO, Final, NamedTuple

from lakehouse.column_names import renamed
from lakehouse.errors import FileVanished, TableUnreadable
from lakehouse.regular import open_file

INT32: Final = 1
INT64: Final = 2
BYTE_ARRAY: Final = 6
_WIDTHS: Final = {INT32: 4, INT64: 8}
"""Physical types that are integers -> bytes."""
FOOTER_BYTES_MAX: Final = 256 << 20
"""A longer one is refused before anybody takes memory for it: Arrow takes ten times as
much, and four bytes of a sparse file can say four gigabytes."""
_MAGIC: Final = b"PAR1"
_TAIL: Final = 8
_VARINT_BITS: Final = 70
"""Ten bytes; Arrow takes no more either. Without a bound the time is the square of
them: a footer of three megabytes took minutes."""
_BYTE, _INTEGERS, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT, _UUID = (
    3, (4, 5, 6), 7, 8, 9, 10, 11, 12, 13,
)  # fmt: skip
_ODD: Final = (IndexError, ValueError, KeyError, RecursionError, UnicodeDecodeError)

_Taken = tuple[Any, int]
"""A value, and where the next one begins."""
_Take = Callable[[bytes, int, int], _Taken]
"""Takes a value of a kind from a place in a footer."""


class ColumnFacts(NamedTuple):
    """A column of a row group. ``path``: names with dots between; ``physical``: its
    type in a file; ``values``: nulls too, and those of lists; bytes, and compressed
    ones; ``bounds``: least and greatest, if they are integers and known; ``start``:
    where its first page is in the file."""

    path: str
    physical: int
    values: int
    bytes: int
    compressed: int
    has_dictionary: bool
    bounds: tuple[int, int] | None
    is_twofold: bool = True
    """Whether the bounds are what an older field says of them, if it is there."""
    codec: int = 0
    start: int = 0


class GroupFacts(NamedTuple):
    """A row group; ``bytes``: uncompressed."""

    columns: list[ColumnFacts]
    rows: int
    bytes: int


def read_groups(path: str) -> list[GroupFacts]:
    """The row groups of a file whose footer Arrow could parse, with columns of ours by
    our names. Raises FileVanished, and TableUnreadable where it contradicts itself."""
    try:
        return _named(_groups(_footer(path)), path)
    except FileNotFoundError as error:
        raise FileVanished(path) from error
    except OSError as error:
        raise TableUnreadable(f"{path}: {error}") from error
    except _ODD as error:
        why = f"its footer is damaged: {error!r}"
        raise TableUnreadable(f"{path}: {why}") from error


def _named(groups: list[GroupFacts], path: str) -> list[GroupFacts]:
    """The same, with columns of ours by our names."""
    columns = (column.path for group in groups for column in group.columns)
    ours = renamed({name.split(".", 1)[0] for name in columns}, path)
    if not ours:
        return groups
    return [
        group._replace(
            columns=[_column_named(column, ours) for column in group.columns]
        )
        for group in groups
    ]


def _column_named(column: ColumnFacts, ours: Mapping[str, str]) -> ColumnFacts:
    name, dot, inside = column.path.partition(".")
    return column._replace(path=ours.get(name, name) + dot + inside)


def check_length(path: str) -> None:
    """Raise TableUnreadable for a footer that is too long, and OSError as ``open``."""
    with open_file(path) as file:
        _length(path, file)


def _footer(path: str) -> bytes:
    with open_file(path) as file:
        length = _length(path, file)
        end = file.seek(0, os.SEEK_END)
        if length is None or length > end - _TAIL:
            raise ValueError("there is none")
        file.seek(end - _TAIL - length)
        return file.read(length)


def _length(path: str, file: BinaryIO) -> int | None:
    """Of the footer, as the last bytes say it; None if they say nothing of one. Raises
    TableUnreadable if it is more than anybody should take memory for."""
    file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
    tail = file.read(_TAIL)
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != _MAGIC:
        return None
    if length > FOOTER_BYTES_MAX:
        raise TableUnreadable(f"{path}: its footer would be of {length} bytes")
    return length


def _groups(footer: bytes) -> list[GroupFacts]:
    said, _ = _struct(footer, 0, {4: _listed(_group)})
    return said[4]  # type: ignore[no-any-return]


def _group(data: bytes, at: int, kind: int) -> _Taken:
    said, at = _inner(data, at, kind, _GROUP)
    columns, size, rows = said[1], said[2], said[3]
    flat = {column.values for column in columns if "." not in column.path}
    if min(size, rows) < 0 or flat - {rows}:
        raise ValueError(f"{rows} rows have columns of {flat} values")
    return GroupFacts(columns, rows, size), at


def _column(data: bytes, at: int, kind: int) -> _Taken:
    said, at = _inner(data, at, kind, {3: _metadata})
    return said[3], at


def _metadata(data: bytes, at: int, kind: int) -> _Taken:
    said, at = _inner(data, at, kind, _METADATA)
    names = b".".join(said[3]).decode()
    bounds, older = _bounds(said)
    found = ColumnFacts(
        names, said[1], said[5], said[6], said[7], 11 in said, bounds or older,
        bounds is None or older is None or bounds == older, said[4], _start(said),
    )  # fmt: skip
    return found, at


def _start(said: Mapping[int, Any]) -> int:
    """Of the dictionary, or of the first page if there is none: as Arrow has it."""
    first, dictionary = said[9], said.get(11, 0)
    return int(dictionary if 0 < dictionary < first else first)


def _bounds(said: Mapping[int, Any]) -> tuple[Any, Any]:
    """(Least, greatest) as two pairs of fields have them; None where one has not."""
    width, found = _WIDTHS.get(said[1]), said.get(12, {})
    pairs = [(found.get(low), found.get(high)) for low, high in ((6, 5), (2, 1))]
    if width is None:
        return None, None
    first, older = (
        tuple(int.from_bytes(one, "little", signed=True) for one in pair)
        if all(one is not None and len(one) == width for one in pair)
        else None
        for pair in pairs
    )
    return first, older


def _statistics(data: bytes, at: int, kind: int) -> _Taken:
    return _inner(data, at, kind, _STATISTICS)


def _inner(data: bytes, at: int, kind: int, wanted: Mapping[int, _Take]) -> _Taken:
    if kind != _STRUCT:
        raise ValueError(f"a structure is of kind {kind}")
    return _struct(data, at, wanted)


def _struct(data: bytes, at: int, wanted: Mapping[int, _Take]) -> _Taken:
    """The wanted fields of a structure, by number."""
    found: dict[int, Any] = {}
    number = 0
    while True:
        head = data[at]
        at += 1
        if not head:
            return found, at
        kind, step = head & 15, head >> 4
        if step:
            number += step
        else:
            number, at = _integer(data, at, 4)
        take = wanted.get(number)
        if kind <= 2:  # a truth value, which has no bytes
            if take is not None:
                raise ValueError(f"field {number} is a truth value")
        elif take is None:
            at = _behind(data, at, kind)
        else:
            found[number], at = take(data, at, kind)


def _listed(take: _Take) -> _Take:
    """Takes lists of what this takes."""

    def taken(data: bytes, at: int, kind: int) -> _Taken:
        if kind != _LIST:
            raise ValueError(f"a list is of kind {kind}")
        count, inner, at = _head(data, at)
        found = []
        for _ in range(count):
            one, at = take(data, at, inner)
            found.append(one)
        return found, at

    return taken


def _head(data: bytes, at: int) -> tuple[int, int, int]:
    """How many elements, of which kind, and where they begin."""
    head = data[at]
    count, at = head >> 4, at + 1
    if count == 15:
        count, at = _varint(data, at)
    if count > len(data):
        raise ValueError(f"{count} elements")
    return count, head & 15, at


def _behind(data: bytes, at: int, kind: int) -> int:
    """Where a value of a kind ends."""
    if kind in _INTEGERS:
        while data[at] >= 0x80:
            at += 1
        return at + 1
    if kind == _BINARY:
        length, at = _varint(data, at)
        return at + length
    if kind == _STRUCT:
        return _struct(data, at, {})[1]
    if kind in (_LIST, _SET):
        count, inner, at = _head(data, at)
        for _ in range(count):
            at = at + 1 if inner <= _BYTE else _behind(data, at, inner)
        return at
    if kind == _MAP:
        return _behind_map(data, at)
    return at + {_BYTE: 1, _DOUBLE: 8, _UUID: 16}[kind]


def _behind_map(data: bytes, at: int) -> int:
    count, at = _varint(data, at)
    if not count:
        return at
    kinds, at = data[at], at + 1
    for _ in range(min(count, len(data))):
        for kind in (kinds >> 4, kinds & 15):
            at = at + 1 if kind <= _BYTE else _behind(data, at, kind)
    return at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    at += 1
    found, shift = byte & 0x7F, 7
    while byte >= 0x80:
        if shift >= _VARINT_BITS:
            raise ValueError("an integer has more than ten bytes")
        byte = data[at]
        at += 1
        found |= (byte & 0x7F) << shift
        shift += 7
    return found, at


def _integer(data: bytes, at: int, kind: int) -> tuple[int, int]:
    if kind not in _INTEGERS:
        raise ValueError(f"an integer is of kind {kind}")
    found, at = _varint(data, at)
    return (found >> 1) ^ -(found & 1), at


def _bytes(data: bytes, at: int, kind: int) -> tuple[bytes, int]:
    if kind != _BINARY:
        raise ValueError(f"bytes are of kind {kind}")
    length, at = _varint(data, at)
    if at + length > len(data):
        raise ValueError(f"{length} bytes")
    return data[at : at + length], at + length


_STATISTICS: Final = {1: _bytes, 2: _bytes, 5: _bytes, 6: _bytes}
_METADATA: Final[Mapping[int, _Take]] = {
    1: _integer, 3: _listed(_bytes), 4: _integer, 5: _integer, 6: _integer,
    7: _integer, 9: _integer, 11: _integer, 12: _statistics,
}  # fmt: skip
_GROUP: Final[Mapping[int, _Take]] = {1: _listed(_column), 2: _integer, 3: _integer}
