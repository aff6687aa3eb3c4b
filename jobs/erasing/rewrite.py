"""A data file without some of its rows.

As a merge of one file (`jobs.merging.rewrite`): the rows in order of offset, sorted if
an owner left them otherwise, in row groups of ours; and what is written is read once
more. Rows that a deletion vector takes are left out as well, by their numbers: they
would come back else.

Rows that are no records, an owner's (without an offset or a timestamp, below 0, or two
of an offset, or of no partition), and that nobody asked about, are in nobody's way: a
file that has such rows is copied as it stands, in its own order, under a name of which
no reader takes it for what our files are.

What is to be erased is named by its offset, and an owner may have that twice: he
inserted the row that he corrected, and his OPTIMIZE put both into one file. Nobody
knows which of them is meant, so that file stays until he says it. What stays is
counted apart from what leaves (`what_stays`): of each offset goes one row.

The new name says what that of the old file said (`jobs.merging.names`): key compaction
and retention know it again.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa

from jobs.merging.names import copied_name, merged_name
from jobs.merging.order import NotMergeable, Source, as_they_are, in_order, staying
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
from jobs.rows import AnyBounds, Bounds, Written, discard, sync_written
from lakehouse.errors import LakehouseError
from lakehouse.files.deletion_vectors import DeletedRows, placed
from lakehouse.files.footers import NO_OFFSET, Footers
from lakehouse.files.repeated import open_parquet
from lakehouse.log.actions import NO_PARTITION, DataFile
from lakehouse.plain import column_of, numbers

_ROWS: Final = 1 << 16


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
    nobody else has. Raises NotMergeable where nobody knows which row is meant,
    ValueError, LakehouseError, OSError, pa.ArrowException; NoRoom where the disk is
    nearly full.
    """
    stays = what_stays(root, file, gone)
    if not stays.rows:
        return None
    path = os.path.join(root, file.relative_path)
    source = Source(
        [path], file.partition, columns, taken={path: taken_rows(root, file)}
    )
    with tempfile.TemporaryDirectory(dir=spill) as aside:
        to = partial(_written, root, columns, stays, aside)
        with suppress(NotMergeable):
            if file.partition != NO_PARTITION:
                rows = row_groups(_others(in_order(source, Footers(), aside), gone))
                name = merged_name([_bounded(root, file)], attempt)
                return to(name, checked(rows, file.partition), Bounds())
        rows = row_groups(_others(as_they_are(source, Footers()), gone))
        return to(copied_name(file.partition, attempt), rows, AnyBounds())


def _written(
    root: str,
    columns: pa.Schema,
    stays: Digest,
    aside: str,
    path: str,
    groups: Iterator[Any],
    bounds: Bounds,
) -> Written:
    """Write these row groups, which are all that stays, or nothing."""
    target = os.path.join(root, path)
    try:
        first = next(groups, None)
        if first is None:
            raise ValueError(f"{path} has not the {stays.rows} rows that stay")
        pause = Pause(0, 0, 0, stop_file(aside))
        write_groups(target, columns, _chain(first, groups), pause, bounds=bounds)
        written = sync_written(path, target, bounds)
        if isinstance(bounds, AnyBounds):
            found = _digest(target)
        else:
            found = digest_of([target], rising=True)
        if found != stays:
            raise ValueError(f"{path} has not what stays: {stays}, {found}")
    except BaseException:
        discard(target)
        raise
    return written


def _digest(path: str) -> Digest:
    """The digest of the offsets in a file, in whatever order."""
    digest = Digest()
    for offsets in _offsets_in(path):
        digest = digest_of_offsets(offsets, digest)
    return digest


def what_stays(root: str, file: DataFile, gone: Any) -> Digest:
    """The offsets of the rows that stay of a file. Raises NotMergeable if one of those
    that leave it is of two rows that are not both deleted: one of them may be another;
    and as `without`."""
    digest, rows, live = Digest(), np.zeros(len(gone), int), np.zeros(len(gone), int)
    for offsets, is_live in _offsets(root, file):
        at, leaves = _places(gone, offsets)
        np.add.at(rows, at[leaves], 1)
        np.add.at(live, at[leaves & is_live], 1)
        digest = digest_of_offsets(offsets[~leaves & is_live], digest)
    twice = np.flatnonzero((rows > 1) & (live > 0))
    if len(twice):
        raise NotMergeable(
            f"offset {gone[twice[0]]} is there twice, and only its owner knows whether "
            "both are to go: let him delete the row that is, and write the file anew "
            "(REORG TABLE ... APPLY (PURGE))"
        )
    return digest


def _offsets(root: str, file: DataFile) -> Iterator[tuple[Any, Any]]:
    """The offsets of all rows in their order, and which the vector does not take, some
    at a time. Raises LakehouseError if it takes what is not there."""
    taken, count = taken_rows(root, file), 0
    source = os.path.join(root, file.relative_path)
    for offsets in _offsets_in(source):
        yield offsets, staying(taken, count, len(offsets))
        count += len(offsets)
    if len(taken) and int(taken[-1]) >= count:
        raise LakehouseError(f"{source} has not the rows that its vector takes")


def _offsets_in(path: str) -> Iterator[Any]:
    """The offsets of all rows of a file in their order, some at a time; `NO_OFFSET`
    where there is none."""
    with open_parquet(path, buffered=True) as opened:
        for batch in opened.iter_batches(_ROWS, columns=["offset"], use_threads=False):
            yield _filled(batch.column(0))


def _filled(column: Any) -> Any:
    return numbers(column.cast(pa.int64()).fill_null(NO_OFFSET))


def taken_rows(root: str, file: DataFile) -> Any:
    """The numbers of the rows that its deletion vector takes. Raises LakehouseError."""
    return DeletedRows().of(placed(root, file.vector))


def _places(gone: Any, offsets: Any) -> tuple[Any, Any]:
    """Where in ``gone`` each offset is, and whether it is."""
    if not len(gone):
        nowhere = np.zeros(len(offsets), np.int64)
        return nowhere, nowhere.astype(np.bool_)
    at = np.minimum(np.searchsorted(gone, offsets), len(gone) - 1)
    return at, gone[at] == offsets


def _others(tables: Iterator[Any], gone: Any) -> Iterator[Any]:
    """The rows at other offsets."""
    for table in tables:
        _, leaves = _places(gone, _filled(table.column("offset")))
        stays: Any = np.flatnonzero(~leaves)
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
    found = [np.empty(0, np.int64)]
    if file.vector is not None:
        found += [offsets[~is_live] for offsets, is_live in _offsets(root, file)]
    offsets = np.concatenate(found)
    return offsets[offsets != NO_OFFSET]
