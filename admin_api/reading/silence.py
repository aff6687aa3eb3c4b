"""Why nothing came at all, where a topic's table is at fault.

The problem: for records that stand in a table that it cannot read the broker answers
KAFKA_STORAGE_ERROR, which librdkafka repeats in silence, as for a disk that comes back.
So a question ended without a record and without a reason, and its next page asked the
same again. The idea: when time is up and nothing was looked at, the table's log is
asked for the first file that is due, and whether it is there as the log has it.

A tail has no end of time. It is asked for the same where it came no further for some
seconds although it had not come to the end.

Bytes that are wrong within a file of the right length are not seen here. A file of
which the log does not say what offsets it has may be due or not; it is told if it is
gone.
"""

import os
from collections.abc import Mapping

from admin_api.lake import Lake
from admin_api.problems import Problem
from admin_api.reading.plan import Spans
from broker.catalog.errors import CatalogError
from lakehouse.errors import TableMissing
from lakehouse.log.actions import DataFile
from lakehouse.log.delta_log import Snapshot, table_ends


def check_table(
    lake: Lake, name: str, spans: Spans, positions: Mapping[int, int]
) -> None:
    """Raises Problem 40900 for a file that is due and not there as it was, and
    LakehouseError for a log that cannot be read; blocks. What it cannot know, as
    without a catalog, is no fault."""
    snapshot = _snapshot(lake, name)
    if snapshot is None:
        return
    for partition, at in sorted(positions.items()):
        if at < spans[partition][1]:
            _check_due(snapshot, partition, at)


def check_places(lake: Lake, name: str, places: Mapping[int, int]) -> None:
    """The same for offsets by partition, each of which stands in the table or behind
    it."""
    snapshot = _snapshot(lake, name)
    ends = {} if snapshot is None else table_ends(snapshot)
    for partition, at in sorted(places.items()):
        if snapshot is not None and at < ends.get(partition, 0):
            _check_due(snapshot, partition, at)


def _snapshot(lake: Lake, name: str) -> Snapshot | None:
    try:
        return lake.snapshot(lake.topic(name))
    except (CatalogError, TableMissing, Problem):
        return None


def _check_due(snapshot: Snapshot, partition: int, at: int) -> None:
    due = [
        file
        for file in snapshot.files.values()
        if file.partition == partition and file.last_offset >= at
    ]
    bounded = (file for file in due if file.is_bounded)
    first = min(bounded, key=lambda file: file.first_offset, default=None)
    unbounded = [file for file in due if not file.is_bounded]
    for file in [*unbounded] if first is None else [first, *unbounded]:
        why = _fault(os.path.join(snapshot.path, file.relative_path), file)
        if why:
            way_on = f"; with `at` it is read behind offset {file.last_offset}"
            are, way_on = ("are", way_on) if file.is_bounded else ("may be", "")
            raise Problem(
                40900,
                f"Records of {partition}:{at} and on {are} in a file of the table that "
                f"{why}{way_on}.",
            )


def _fault(path: str, file: DataFile) -> str | None:
    try:
        size = os.stat(path).st_size
    except OSError as error:
        return f"cannot be read: {path}: {error.strerror}"
    if size != file.size:
        return f"has {size} bytes of {file.size}: {path}"
    return None
