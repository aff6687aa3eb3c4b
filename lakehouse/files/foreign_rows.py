"""Rows that stand where records are to come: an owner's, or of forgotten commits.

The problem: each offset must be in the table once. An owner may INSERT rows above the
end of a partition, or move rows there by UPDATE; when the log reaches these offsets, a
commit would make second rows of them, and nobody could tell which is the record. The
idea: before a commit the statistics name the files that may reach into its ranges; of
these few the offsets themselves are read. So a file that merely spans a range (an
OPTIMIZE put a stray row into it) is in nobody's way.

The price: of a file without statistics the footer is read, once: an owner may turn
them off for all files, so it is remembered how far each reaches. One that is not there,
or is damaged, is believed what the log says of it.
"""

import os
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from lakehouse.errors import FileVanished, TableUnreadable
from lakehouse.files.deletion_vectors import placed
from lakehouse.files.footers import Footers
from lakehouse.log.actions import UNKNOWN_MAX, UNKNOWN_MIN, DataFile, Vector

Ranges = Mapping[int, tuple[int, int]]
"""Partition -> [first offset, end offset)."""


class ForeignRows(NamedTuple):
    """Rows of one file with offsets from ``low`` to ``high``, both inclusive."""

    low: int
    high: int
    path: str


SPANS_KEPT = 1 << 16
"""About 300 bytes each; all of them only where files have no statistics."""

_footers = Footers()


def foreign_rows(
    root: str, files: Iterable[DataFile], ranges: Ranges
) -> dict[int, ForeignRows]:
    """Partition -> rows that ``files`` of the table at ``root`` have in its range."""
    suspects = [
        file
        for file in files
        if file.partition in ranges
        and file.first_offset < ranges[file.partition][1]
        and file.last_offset >= ranges[file.partition][0]
    ]
    return _first_found(root, suspects, ranges)


def has_rows(
    root: str, files: Iterable[DataFile], partition: int, span: tuple[int, int]
) -> bool:
    """Whether ``files`` of the table at ``root`` have rows of a partition in a range of
    offsets."""
    return bool(foreign_rows(root, files, {partition: span}))


def _first_found(
    root: str, suspects: Iterable[DataFile], ranges: Ranges
) -> dict[int, ForeignRows]:
    found: dict[int, ForeignRows] = {}
    for file in suspects:
        if file.partition not in found:
            rows = _rows_in(root, file, ranges[file.partition])
            if rows is not None:
                found[file.partition] = rows
    return found


def _rows_in(root: str, file: DataFile, wanted: tuple[int, int]) -> ForeignRows | None:
    """The rows of a file in the range. What cannot be read is as the log has it."""
    path, low, high = file.path, file.first_offset, file.last_offset
    try:
        full = os.path.join(root, file.relative_path)
        parts = _offsets_in(full, placed(root, file.vector), wanted)
        offsets = np.concatenate(parts or [np.empty(0, np.int64)])
    except (FileVanished, TableUnreadable, ValueError):
        if (low, high) == (UNKNOWN_MIN, UNKNOWN_MAX):
            return None  # nobody ever knew what was in it, and nobody can read it
        return ForeignRows(low, high, path)
    if not len(offsets):
        return None
    return ForeignRows(int(offsets.min()), int(offsets.max()), path)


def _offsets_in(path: str, vector: Vector | None, wanted: tuple[int, int]) -> list[Any]:
    """Of each row group the offsets in the range. Raises FileVanished and
    TableUnreadable; ValueError if offsets are no int64."""
    first, end = wanted
    low, high = _span(path)
    if low >= end or high < first:
        return []
    parts = []
    groups = _footers.get(path).groups
    near = [n for n, g in enumerate(groups) if g[0] < end and g[1] >= first and g.rows]
    for number in near:
        offsets = _footers.offsets(path, number, vector)
        parts.append(offsets[(offsets >= first) & (offsets < end)])
    return parts


@lru_cache(SPANS_KEPT)
def _span(path: str) -> tuple[int, int]:
    """The least and the greatest offset of a file; of one without rows, none lies in
    between. Raises as `_offsets_in`; what failed is looked at anew."""
    groups = [group for group in _footers.get(path).groups if group.rows]
    low = min((group.first_offset for group in groups), default=0)
    return low, max((group.last_offset for group in groups), default=-1)
