"""From an offset to the version of the table that brought it, and back; blocks."""

from typing import NamedTuple

from admin_api.commits.times import time_of
from admin_api.lake import Lake
from admin_api.problems import Problem
from admin_api.versions.schemas import PartitionEnd, TableVersion
from broker.topics.topic import Topic
from lakehouse.errors import LakehouseError, LogDamaged
from lakehouse.log.actions import parse_commit
from lakehouse.log.delta_log import oldest_version, read_entry, table_ends
from lakehouse.log.history import round_of


class Wanted(NamedTuple):
    """What is asked for: a version, or that which brought an offset."""

    version: int | None
    partition: int | None
    offset: int | None

    def check(self) -> None:
        """Raises Problem 400 unless one of the two is asked for."""
        by_offset = self.partition is not None and self.offset is not None
        half = (self.partition is None) != (self.offset is None)
        if half or by_offset == (self.version is not None):
            raise Problem(400, "Say partition and offset, or version.")


def look_up(lake: Lake, name: str, wanted: Wanted) -> TableVersion:
    """The version that is wanted. Raises Problem and LakehouseError."""
    topic = lake.topic(name)
    if wanted.version is not None:
        return _render(lake, topic, wanted.version, exact=True)
    assert wanted.partition is not None
    assert wanted.offset is not None
    version, exact = _version_with(lake, topic, wanted.partition, wanted.offset)
    return _render(lake, topic, version, exact=exact)


def _version_with(
    lake: Lake, topic: Topic, partition: int, offset: int
) -> tuple[int, bool]:
    if partition >= topic.partitions:
        raise Problem(40402, f"Topic {topic.name} has no partition {partition}.")
    snapshot = lake.snapshot(topic)
    end = table_ends(snapshot).get(partition, 0)
    if offset >= end:
        raise Problem(
            40405,
            f"Offset {offset} of partition {partition} is not in the table, which "
            f"ends at {end}.",
        )
    oldest = oldest_version(snapshot.path)
    if oldest is None:
        raise LogDamaged(f"{snapshot.path}: no version can be read")
    found = round_of(snapshot.path, topic.id.hex(), partition, offset)
    if found is not None and found.first_offset <= offset and found.version >= oldest:
        return found.version, True
    if oldest == 0:
        raise Problem(
            40405, f"Offset {offset} of partition {partition} never was in the table."
        )
    return oldest, False


def _render(lake: Lake, topic: Topic, version: int, *, exact: bool) -> TableVersion:
    snapshot = lake.snapshot_at(topic, version)
    rows = [file.rows for file in snapshot.files.values()]
    ends = table_ends(snapshot)
    return TableVersion(
        topic_name=topic.name,
        version=version,
        timestamp_ms=_timestamp_ms(snapshot.path, version),
        exact=exact,
        rows=None if -1 in rows else sum(rows),
        files=len(rows),
        ends=[
            PartitionEnd(partition_id=partition, end_offset=end)
            for partition, end in sorted(ends.items())
        ],
    )


def _timestamp_ms(path: str, version: int) -> int | None:
    try:
        info = parse_commit(version, read_entry(path, version)).info
    except (OSError, ValueError, LakehouseError):
        return None
    return time_of(path, version, info)
