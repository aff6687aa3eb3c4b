"""Places in memory as plain values, and files in the form that the compactor writes."""

import ctypes
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse.files.footers import Footers
from lakehouse.files.pages import read_places
from lakehouse.places import (
    HEADER_COUNT,
    KEY_AT,
    KEY_LENGTH,
    KIND,
    OFFSET,
    TIMESTAMP,
    VALUE_AT,
    VALUE_LENGTH,
    Places,
)
from lakehouse.schema import HEADERS, WRITE

Row = tuple[int, int, int, bytes | None, bytes | None]
"""Offset, timestamp in ms, whether it is the broker's, key, value."""


def table_of(found: Sequence[Row], microseconds: int = 0) -> pa.Table:
    """These as a table of our columns, without headers."""
    offsets, times, kinds, keys, values = zip(*found, strict=True)
    count = len(found)
    return pa.table(
        [
            pa.array([0] * count, pa.int32()),
            pa.array(offsets, pa.int64()),
            pa.array([1000 * t + microseconds for t in times], WRITE.field(2).type),
            pa.array(kinds, pa.int32()),
            pa.array(["orders"] * count, pa.string()),
            pa.array(keys, pa.binary()),
            pa.array(values, pa.binary()),
            pa.nulls(count, HEADERS),
        ],
        schema=WRITE,
    )


def write_like_ours(path: Path | str, table: pa.Table, **changed: Any) -> None:
    """One file, as the compactor writes it but for what is ``changed``."""
    rows = changed.pop("row_group_size", 10_000)
    options: dict[str, Any] = {
        "compression": "zstd",
        "use_dictionary": ["partition", "timestampType", "topic", "key"],
        "column_encoding": dict.fromkeys(
            ("offset", "timestamp"), "DELTA_BINARY_PACKED"
        ),
        "write_statistics": ["partition", "offset", "timestamp"],
        "write_page_checksum": True,
    }
    with pq.ParquetWriter(path, table.schema, **{**options, **changed}) as writer:
        writer.write_table(table, row_group_size=rows)


def taken(size: int) -> Any:
    return np.full(size, 0xAA, np.uint8)


def rows_of(part: Places) -> list[Row]:
    """What a part has, copied out of where it lies."""
    rows = part.rows
    assert not rows[HEADER_COUNT].any()
    keys = zip(rows[KEY_AT] + part.bases[0], rows[KEY_LENGTH], strict=True)
    values = zip(rows[VALUE_AT] + part.bases[1], rows[VALUE_LENGTH], strict=True)
    numbers = (rows[field].tolist() for field in (OFFSET, TIMESTAMP, KIND))
    return list(zip(*numbers, map(_copied, keys), map(_copied, values), strict=True))


def _copied(place: tuple[Any, Any]) -> bytes | None:
    at, length = map(int, place)
    assert length >= -1
    return None if length < 0 else ctypes.string_at(at, length)


def placed(path: Path) -> list[list[Row]] | None:
    """The rows of each row group, read without Arrow; None if one is left to it.

    Raises as `Footers` does, and OSError if a page does not decompress.
    """
    found = []
    for group in Footers().get(str(path)).groups:
        layout = group.layout
        parts = read_places(str(path), layout, taken, rows_of) if layout else None
        if parts is None:
            return None
        found.append(flat(parts))
    return found


def flat(parts: Iterable[list[Row]]) -> list[Row]:
    return [row for part in parts for row in part]
