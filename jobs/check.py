"""``lakelog check``: does a data directory hold together? No Spark, nothing is changed.

The problem: what the parts promise each other (each offset once, statistics that are
true, checksums that hold) can only be believed when it is read back as a whole, by
code that trusts none of them. The idea: read everything and compare. A broker and a
compactor may be running: so what only grows is read in the order in which it is used
(committed offsets, then segments, then tables, then log starts), and what is let go
meanwhile is not missed.

A hole in the offsets is legal inside the log (a batch that was refused behind one in
flight) and in a table (its owner's DELETE): holes are counted. A hole between the end
of a table and the first batch that is left is not: records are missing.
"""

from dataclasses import dataclass, field
from pathlib import Path

from broker.catalog import offsets as catalog_offsets
from broker.catalog import topics as catalog_topics
from broker.catalog.catalog import Catalog
from broker.catalog.errors import CatalogError
from broker.topics.topic import Topic
from jobs.check_segments import SegmentsFound, check_segments
from jobs.check_tables import TableFound, check_table
from jobs.planner import TopicPartition


@dataclass(slots=True)
class Report:
    """What was verified, by kind, and one sentence per problem."""

    counts: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def count(self, name: str, number: int = 1) -> None:
        self.counts[name] = self.counts.get(name, 0) + number

    @property
    def ok(self) -> bool:
        return not self.problems


def check_data_directory(data_dir: Path) -> Report:
    """Read and verify all of ``data_dir``; blocks for as long as that takes."""
    report = Report()
    for name in ("topics", "segments", "batches", "tables", "files", "rows"):
        report.count(name, 0)
    try:
        catalog = Catalog.open(data_dir / "catalog.db", read_only=True)
    except CatalogError as error:
        report.problems.append(str(error))
        return report
    try:
        _check(data_dir, catalog, report)
    finally:
        catalog.close()
    return report


def _check(data_dir: Path, catalog: Catalog, report: Report) -> None:
    committed = catalog.read(catalog_offsets.load)
    segments = check_segments(data_dir / "wal", report)
    topics = catalog.read(catalog_topics.load)
    tables = {
        topic.number: check_table(data_dir / "tables", topic, report)
        for topic in topics
    }
    starts = catalog.read(catalog_topics.load_log_starts)
    report.count("topics", len(topics))
    ends: dict[TopicPartition, int] = {}
    for topic in topics:
        for partition in range(topic.partitions):
            key = topic.number, partition
            ends[key] = _check_partition(
                topic, partition, segments, tables[topic.number],
                starts.get(key, 0), report,
            )  # fmt: skip
    for group, offsets in committed.items():
        names = {topic.number: topic.name for topic in topics}
        for key, stored in offsets.items():
            report.count("committed_offsets")
            if key in ends and not 0 <= stored.offset <= ends[key]:
                report.problems.append(
                    f"group {group!r} has committed {stored.offset} of "
                    f"{names[key[0]]}-{key[1]}, which ends at {ends[key]}"
                )


def _check_partition(
    topic: Topic,
    partition: int,
    segments: SegmentsFound,
    table: TableFound,
    start: int,
    report: Report,
) -> int:
    """Each offset from the log's start on is in the table or in a segment; the end."""
    report.count("partitions")
    name = f"{topic.name}-{partition}"
    ranges = segments.ranges.get((topic.number, partition), [])
    reached = table.ends.get(partition)
    _check_seam(name, ranges, max(start, reached or 0), report)
    previous = None
    for first, end in ranges:
        if previous is not None and first < previous:
            report.problems.append(f"{name}: offset {first} is in the segments twice")
        if previous is not None and first > previous:
            report.count("holes_in_segments")
        previous = end
    end = max(start, reached or 0, previous or 0)
    if start > end:
        report.problems.append(f"{name}: the log starts at {start}, and ends at {end}")
    return end


def _check_seam(
    name: str, ranges: list[tuple[int, int]], needed: int, report: Report
) -> None:
    """Where the table ends, the segments must go on."""
    if ranges and ranges[0][0] > needed:
        report.problems.append(
            f"{name}: offsets {needed} to {ranges[0][0]} are neither in the table nor "
            "in a segment"
        )
