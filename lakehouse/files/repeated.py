"""Keys and values that a file has once for many rows, in a dictionary.

The problem: ten thousand equal values of 60 KB are a megabyte of a file and 600 of
memory, and the footer says nothing of it. The idea: where a column is all dictionary,
it is read as such, and the lengths of what each row has are added up without making any
of it. Where a writer fell back to plain values behind a dictionary, reading it as one
would make a dictionary of them all, twenty times slower; there the first rows are taken
for all, which is a guess, and whoever reads such a row group counts on the way.

The price: a millisecond for a row group of ten thousand different keys.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.errors import FileVanished, TableUnreadable
from lakehouse.files.parquet_footer import BYTE_ARRAY, GroupFacts, check_length
from lakehouse.files.rows_file import RowsFile
from lakehouse.plain import numbers
from lakehouse.regular import check_file

BUFFER_BYTES = 1 << 20
DICTIONARY_BYTES_MAX = 2 << 20
"""Of a column that is all dictionary; writers fall back above one MiB."""
INDEX_BYTES = 5
"""A row takes less in such a column."""
SURE_BYTES = 4 << 20
"""What cannot take more is not looked at."""
SAMPLE_ROWS = 32
"""A row may take megabytes."""
LENGTHS_A_READ = 1 << 16


class Repeated(NamedTuple):
    """What the rows take of keys and values that the file may have once."""

    bytes: int
    is_guess: bool


def open_parquet(
    path: str, metadata: Any = None, *, buffered: bool = False, once: Sequence[Any] = ()
) -> Any:
    """Open a data file, see `RowsFile`; pages that have a checksum are verified when
    they are read.

    ``buffered``: a column chunk is read page by page, not as a whole; ``once``:
    columns, by index, that are read as dictionaries.

    Raises FileVanished or TableUnreadable.
    """
    try:
        if metadata is None:
            check_length(path)
        else:
            check_file(path)
        return RowsFile(
            path, metadata=metadata, pre_buffer=False,
            read_dictionary=list(once),
            page_checksum_verification=True,
            buffer_size=BUFFER_BYTES if buffered else 0,
            coerce_int96_timestamp_unit="us",
        )  # fmt: skip
    except FileNotFoundError as error:
        raise FileVanished(path) from error
    except (pa.ArrowException, OSError) as error:
        raise TableUnreadable(f"{path}: {error}") from error


def once_of(group: GroupFacts) -> list[int]:
    """The columns of a row group, by index, whose keys or values are all in a
    dictionary."""
    size_max = DICTIONARY_BYTES_MAX + INDEX_BYTES * group.rows
    return [
        number
        for number in _with_dictionary(group)
        if group.columns[number].bytes <= size_max
    ]


def repeated(path: str, file: Any, number: int, group: GroupFacts) -> Repeated:
    """Weigh a row group of an open file, as its footer has it. What cannot be read
    takes nothing: who wants it will tell."""
    columns = _with_dictionary(group)
    most = group.rows * sum(group.columns[n].bytes for n in columns)
    if most <= SURE_BYTES:
        return Repeated(most, is_guess=False)
    once = once_of(group)
    others = [n for n in columns if n not in once]
    names, rest = ([group.columns[n].path for n in some] for some in (once, others))
    try:
        size = _exactly(
            path, file.metadata, number, dict(zip(once, names, strict=True))
        )
        size += _as_the_first(file, number, rest, group.rows)
    except (pa.ArrowException, OSError):
        return Repeated(0, is_guess=True)
    return Repeated(size, is_guess=bool(others))


def _with_dictionary(group: GroupFacts) -> list[int]:
    return [
        number
        for number, column in enumerate(group.columns)
        if column.path in ("key", "value")
        and column.physical == BYTE_ARRAY
        and column.has_dictionary
    ]


def _exactly(path: str, metadata: Any, number: int, once: Mapping[int, str]) -> int:
    """``once``: the columns, by index, and their names."""
    if not once:
        return 0
    names = list(once.values())
    with open_parquet(path, metadata, buffered=True, once=list(once)) as file:
        return sum(
            int(_lengths(column).sum())
            for batch in file.iter_batches(
                LENGTHS_A_READ, row_groups=[number], columns=names, use_threads=False
            )
            for column in batch.columns
        )


def _as_the_first(file: Any, number: int, names: list[str], rows: int) -> int:
    """About the bytes of these columns if all rows are like the first ones."""
    if not names:
        return 0
    batches = file.iter_batches(
        SAMPLE_ROWS, row_groups=[number], columns=names, use_threads=False
    )
    some = next(batches)
    return int(some.nbytes * rows // len(some))


def _lengths(column: Any) -> Any:
    """How many bytes each row has of a dictionary, as numpy's integers."""
    lengths = pc.binary_length(column.dictionary.cast(pa.binary())).cast(pa.int64())
    return numbers(lengths.take(column.indices).fill_null(0))


def lengths_of(table: Any) -> Any:
    """How many bytes each row of a table has of all columns that are dictionaries; None
    if there are none."""
    columns = [c for c in table.columns if pa.types.is_dictionary(c.type)]
    return sum(_lengths(c.combine_chunks()) for c in columns) if columns else None
