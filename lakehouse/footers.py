"""Parquet footers, kept: what is in which row group of a file.

The problem: a fetch wants ten thousand rows out of a million, and parsing the footer of
a file with a hundred row groups costs as much as reading one of them. The idea: data
files never change, so a footer is parsed once and kept, within a bound in bytes.

Any thread may ask.
"""

import os
import threading
from collections import OrderedDict
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse.actions import UNKNOWN_MAX
from lakehouse.errors import FileVanished, TableUnreadable
from lakehouse.plain import numbers

CACHE_BYTES = 16 << 20


class RowGroup(NamedTuple):
    """A row group: inclusive offsets, and what reading it takes."""

    first_offset: int
    last_offset: int
    rows: int
    bytes: int
    """Uncompressed."""
    timestamp_max_ms: int


class Footer(NamedTuple):
    metadata: Any
    groups: list[RowGroup]


class Footers:
    """Footers of data files by absolute path, the least recently used let go."""

    def __init__(self, bytes_max: int = CACHE_BYTES) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._kept: OrderedDict[str, Footer] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, path: str) -> Footer:
        """The footer of a file. Raises FileVanished or TableUnreadable."""
        with self._lock:
            found = self._kept.get(path)
            if found is not None:
                self._kept.move_to_end(path)
                return found
        footer = _read(path)
        self._keep(path, footer)
        return footer

    def open(self, path: str) -> Any:
        """A ``pq.ParquetFile`` on the file, without parsing its footer again."""
        metadata = self.get(path).metadata
        return open_parquet(path, metadata)

    def _keep(self, path: str, footer: Footer) -> None:
        with self._lock:
            if path not in self._kept:
                self._kept[path] = footer
                self._bytes += footer.metadata.serialized_size
            while self._bytes > self._bytes_max and len(self._kept) > 1:
                _, gone = self._kept.popitem(last=False)
                self._bytes -= gone.metadata.serialized_size


def open_parquet(path: str, metadata: Any = None) -> Any:
    """Open a data file. Raises FileVanished or TableUnreadable."""
    try:
        return pq.ParquetFile(
            path, metadata=metadata, pre_buffer=False, coerce_int96_timestamp_unit="us"
        )
    except FileNotFoundError as error:
        raise FileVanished(path) from error
    except (pa.ArrowException, OSError) as error:
        raise TableUnreadable(f"{path}: {error}") from error


def _read(path: str) -> Footer:
    with open_parquet(path) as file:
        metadata = file.metadata
        names = metadata.schema.names
        if "offset" not in names:
            raise TableUnreadable(f"{os.path.basename(path)} has no column offset")
        offset = names.index("offset")
        timestamp = _microsecond_column(file)
        groups = [
            _row_group(file, metadata.row_group(number), number, offset, timestamp)
            for number in range(metadata.num_row_groups)
        ]
    return Footer(metadata, groups)


def _microsecond_column(file: Any) -> int | None:
    """Index of ``timestamp`` if its statistics are microseconds."""
    schema = file.schema_arrow
    if "timestamp" not in schema.names:
        return None
    kind = schema.field("timestamp").type
    if not pa.types.is_timestamp(kind) or kind.unit != "us":
        return None
    index: int = file.metadata.schema.names.index("timestamp")
    return index


def _row_group(
    file: Any, group: Any, number: int, offset: int, timestamp: int | None
) -> RowGroup:
    first, last = _offset_bounds(file, group, number, offset)
    newest = UNKNOWN_MAX
    if timestamp is not None:
        column = group.column(timestamp)
        if _has_bounds(column) and column.physical_type == "INT64":
            newest = column.statistics.max_raw // 1000
    return RowGroup(first, last, group.num_rows, group.total_byte_size, newest)


def _has_bounds(column: Any) -> bool:
    return bool(column.is_stats_set and column.statistics.has_min_max)


def _offset_bounds(
    file: Any, group: Any, number: int, column_index: int
) -> tuple[int, int]:
    """From the statistics; from the column itself when there are none."""
    column = group.column(column_index)
    if _has_bounds(column):
        return column.statistics.min, column.statistics.max
    table = file.read_row_group(number, columns=["offset"], use_threads=False)
    values = numbers(table.column(0))
    return (int(values.min()), int(values.max())) if len(values) else (0, -1)
