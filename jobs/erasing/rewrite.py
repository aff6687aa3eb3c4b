"""A data file without some of its rows.

As a merge of one file (`jobs.merging.rewrite`): the rows in order of offset, sorted if
an owner left them otherwise, in row groups of ours; and what is written is read once
more, and has just the offsets that were to stay. Rows that a deletion vector takes are
left out as well: they would come back else.

The new name says what that of the old file said (`jobs.merging.names`): key compaction
and retention know it again.
"""

import os
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from jobs.merging.names import merged_name
from jobs.merging.order import Source, in_order
from jobs.merging.rewrite import (
    Digest,
    Pause,
    checked,
    digest_of,
    digest_of_offsets,
    row_groups,
    stop_file,
    write_groups,
)
from jobs.rows import Written, discard, sync_written
from lakehouse.errors import LakehouseError
from lakehouse.files.deletion_vectors import DeletedRows, placed
from lakehouse.files.footers import Footers
from lakehouse.files.repeated import open_parquet
from lakehouse.log.actions import DataFile
from lakehouse.plain import column_of, numbers


def without(
    root: str,
    file: DataFile,
    gone: Any,
    columns: pa.Schema,
    *,
    attempt: str,
    spill: str,
) -> Written | None:
    """Write what stays of a file, durable with its directory, and not committed; None
    if nothing does.

    ``gone``: sorted offsets; ``attempt``: three hexadecimal numbers with dashes, which
    nobody else has. Raises NotMergeable where rows are no records, ValueError,
    LakehouseError, OSError, pa.ArrowException; NoRoom where the disk is nearly full.
    """
    path = merged_name([_bounded(root, file)], attempt)
    target, source = os.path.join(root, path), os.path.join(root, file.relative_path)
    leaves = np.union1d(gone, marked_offsets(root, file))
    kept = _Kept(leaves)
    wanted = Source([source], file.partition, columns)
    with tempfile.TemporaryDirectory(dir=spill) as aside:
        rows = kept.of(in_order(wanted, Footers(), aside))
        groups = checked(row_groups(rows), file.partition)
        first = next(groups, None)
        if first is None:
            return None
        try:
            pause = Pause(0, 0, 0, stop_file(aside))
            bounds = write_groups(target, columns, _chain(first, groups), pause)
            written = sync_written(path, target, bounds)
            found = digest_of([target], rising=True)
            if found != kept.digest:
                raise ValueError(f"{path} has not what stays: {kept.digest}, {found}")
        except BaseException:
            discard(target)
            raise
    return written


class _Kept:
    """The rows that stay, and a digest of their offsets."""

    def __init__(self, gone: Any) -> None:
        self._gone = gone
        self.digest = Digest()

    def of(self, tables: Iterator[Any]) -> Iterator[Any]:
        for table in tables:
            offsets = numbers(table.column("offset"))
            stays: Any = np.flatnonzero(~np.isin(offsets, self._gone))
            self.digest = digest_of_offsets(offsets[stays], self.digest)
            if len(stays):
                yield table.take(column_of(stays.astype(np.int64), pa.int64()))


def _bounded(root: str, file: DataFile) -> DataFile:
    """The file, with its offsets if the log does not know them."""
    if file.is_bounded:
        return file
    with open_parquet(os.path.join(root, file.relative_path), buffered=True) as opened:
        offsets = numbers(opened.read(columns=["offset"]).column("offset").drop_null())
    low, high = (int(offsets.min()), int(offsets.max())) if len(offsets) else (0, 0)
    return file._replace(first_offset=low, last_offset=high)


def _chain(first: Any, others: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from others


def marked_offsets(root: str, file: DataFile) -> Any:
    """The offsets of the rows that its deletion vector takes. Raises LakehouseError,
    OSError, pa.ArrowException."""
    if file.vector is None:
        return np.empty(0, np.int64)
    rows = DeletedRows().of(placed(root, file.vector))
    source = os.path.join(root, file.relative_path)
    with open_parquet(source, buffered=True) as opened:
        offsets = opened.read(columns=["offset"]).column("offset")
    if len(rows) and int(rows[-1]) >= len(offsets):
        raise LakehouseError(f"{source} has not the rows that its vector takes")
    return numbers(offsets.take(column_of(rows, pa.int64())).drop_null())
