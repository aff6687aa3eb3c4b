"""A data file that was written and is to be committed: what its ``add`` will say.

The problem: without statistics in the log nobody can tell which file holds an offset.
The idea: the writer describes the file as it knows it, and both the log's statistics
and the checks before a commit come from that description.
"""

import json
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from lakehouse.log.actions import NO_PARTITION

_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
_NULL: Final = "__HIVE_DEFAULT_PARTITION__"
"""Where Delta's writers put rows of no partition."""


class NewFile(NamedTuple):
    """A file below the table's directory. Offsets and timestamps are inclusive."""

    path: str
    """Relative to the table, with ``/``: ``partition=3/<name>.parquet``."""
    partition: int
    size: int
    rows: int
    first_offset: int
    last_offset: int
    timestamp_min_ms: int
    timestamp_max_ms: int
    modified_ms: int
    nameless: int = 0
    """Rows without an offset, an owner's; if all are, the bounds of offsets say
    nothing."""
    timeless: int = 0
    """The same of timestamps."""


def partition_directory(partition: int) -> str:
    """Where the files of a Kafka partition lie, relative to the table."""
    return f"partition={partition_value(partition) or _NULL}"


def partition_value(partition: int) -> str | None:
    """What the log says of a partition; None: rows of an owner's that are of none."""
    return None if partition == NO_PARTITION else str(partition)


def statistics(file: NewFile) -> str:
    """What the ``add`` of a file says of its rows, as JSON."""
    low, high = dict[str, object](), dict[str, object]()
    if file.nameless < file.rows:
        low["offset"], high["offset"] = file.first_offset, file.last_offset
    bounds = _iso(file.timestamp_min_ms), _iso(file.timestamp_max_ms)
    if None not in bounds and file.timeless < file.rows:
        low["timestamp"], high["timestamp"] = bounds
    said = {
        "numRecords": file.rows,
        "minValues": low,
        "maxValues": high,
        "nullCount": {"offset": file.nameless, "timestamp": file.timeless},
    }
    return json.dumps(said, separators=(",", ":"))


def _iso(timestamp_ms: int) -> str | None:
    """As statistics have it; None outside the years that ISO 8601 text can say."""
    try:
        moment = _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return None
    # Not strftime: it leaves the zeros of a year below 1000 out, and readers that make
    # nothing of such a text skip the whole file.
    return moment.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"
