"""``lakelog check``: does a data directory hold together? No Spark, nothing is changed.

The problem: what the parts promise each other (each offset once, statistics that are
true, checksums that hold) can only be believed when it is read back as a whole, by
code that trusts none of them. The idea: read everything and compare. A broker and a
compactor may be running: so what only grows is read in the order in which it is used
(committed offsets, then durable ends, then segments, then tables, then log starts), and
what is released meanwhile is not missed. Of a topic that is deleted meanwhile nothing
is said: its table may have left its place, or be another topic's. So the topics are
read again after the tables, which leave later than their topics.

How far a partition must reach is the checkpoint's to say: no segment is released before
a checkpoint that lies behind it is durable. So what was acknowledged, released and is
not in the table any more (its last commit is gone, or the whole table) is noticed.

A hole in the offsets is legal in the log if it is that of a refused batch (the
checkpoint knows those), and in a table (its owner's DELETE): holes are counted. Any
other hole from the end of a table on, before the first batch that is left or between
two, is not: records are missing.

Tables that lie on a disk which is not mounted, or is another data directory's, are not
verified, and that is the one thing said of them.
"""

import re
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Final

from sqlalchemy import Connection

from broker.catalog import offsets as catalog_offsets
from broker.catalog import topics as catalog_topics
from broker.catalog.catalog import Catalog
from broker.catalog.errors import CatalogError
from broker.catalog.offsets import CommittedOffset
from broker.ids import TopicNumber, TopicPartition
from broker.log.partition import LogSnapshot
from broker.storage.manifest import ManifestDamaged
from broker.storage.store import SegmentStore, open_store
from broker.storage.warehouse import DirectoryRefused, check_warehouse
from broker.topics.topic import Topic
from jobs.check_report import Report
from jobs.check_segments import SegmentsFound, check_segments
from jobs.check_strays import strays
from jobs.check_tables import TableFound, check_table
from jobs.missing import NOTHING_KNOWN, Known, past_holes, read_checkpoint

NO_OFFSET: Final = 1 << 63
"""Behind every offset."""
_NUMBER: Final = re.compile(r"\btopic (\d+) partition \d")


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
        _name_topics(report, catalog.read(catalog_topics.load))
    finally:
        catalog.close()
    return report


def _name_topics(report: Report, topics: list[Topic]) -> None:
    """Say the names of topics behind problems that know their numbers alone."""
    names = {int(topic.number): topic.name for topic in topics}
    for place, problem in enumerate(report.problems):
        numbers = {int(found) for found in _NUMBER.findall(problem)} & names.keys()
        if numbers:
            said = ", ".join(f"topic {one} is {names[one]}" for one in sorted(numbers))
            report.problems[place] = f"{problem} ({said})"


def _check(data_dir: Path, catalog: Catalog, report: Report) -> None:
    committed = catalog.read(catalog_offsets.load)
    store = open_store(str(data_dir / "wal"))
    known = _checkpointed(store, report)
    segments = check_segments(store, report)
    begun = catalog.read(catalog_topics.load)
    tables = _check_tables(data_dir, begun, report)
    alive, starts = catalog.read(_topics_and_starts)
    topics = _still_there(begun, alive, report)
    if tables is None:
        return
    for topic in topics:
        report.add(tables[topic.number].report)
    ends: dict[TopicPartition, int] = {}
    for topic in topics:
        for partition in range(topic.partitions):
            key = topic.key(partition)
            ends[key] = _check_partition(
                topic, partition, segments, tables[topic.number].ends,
                starts.get(key, 0), known.get(key, NOTHING_KNOWN), report,
            )  # fmt: skip
    _check_committed(committed, topics, ends, report)


def _topics_and_starts(
    connection: Connection,
) -> tuple[list[Topic], dict[TopicPartition, int]]:
    """Both at once: the starts go with their topics."""
    starts = catalog_topics.load_log_starts(connection)
    return catalog_topics.load(connection), starts


def _still_there(begun: list[Topic], alive: list[Topic], report: Report) -> list[Topic]:
    """Those that were not deleted meanwhile. One that came back has another number: its
    records in segments are no more its own."""
    numbers = {topic.number for topic in alive}
    topics = [topic for topic in begun if topic.number in numbers]
    report.count("topics", len(topics))
    if len(topics) < len(begun):
        report.count("topics_deleted_meanwhile", len(begun) - len(topics))
    return topics


def _check_tables(
    data_dir: Path, topics: list[Topic], report: Report
) -> dict[TopicNumber, TableFound] | None:
    """The tables by topic; None if their disk is not there, or went meanwhile: nobody
    knows then what they hold, and that alone is reported."""
    found = dict[TopicNumber, TableFound]()
    try:
        check_warehouse(data_dir)
        for topic in topics:
            found[topic.number] = check_table(data_dir / "tables", topic)
        remarks = strays(data_dir / "tables", [topic.name for topic in topics])
        check_warehouse(data_dir)
    except (DirectoryRefused, OSError) as error:
        report.problems.append(f"no table was verified: {error}")
        return None
    report.remarks += remarks
    return found


def _checkpointed(store: SegmentStore, report: Report) -> Known:
    """What the last checkpoint says of each partition."""
    try:
        return read_checkpoint(store)
    except ManifestDamaged:
        return {}  # `check_segments` reports it
    except ValueError as error:
        report.problems.append(str(error))
        return {}


def _check_committed(
    committed: Mapping[str, Mapping[TopicPartition, CommittedOffset]],
    topics: list[Topic],
    ends: Mapping[TopicPartition, int],
    report: Report,
) -> None:
    """An offset beyond the end is legal, as in Kafka: its group waits for records."""
    names = {topic.number: topic.name for topic in topics}
    for group, offsets in committed.items():
        for key, stored in offsets.items():
            report.count("committed_offsets")
            if key in ends and not 0 <= stored.offset <= ends[key]:
                report.remarks.append(
                    f"group {group!r} has committed {stored.offset} of "
                    f"{names[key[0]]}-{key[1]}, which ends at {ends[key]}"
                )


def _check_partition(
    topic: Topic,
    partition: int,
    segments: SegmentsFound,
    table_ends: Mapping[int, int],
    start: int,
    known: LogSnapshot,
    report: Report,
) -> int:
    """Each offset from the log's start on is in the table or in a segment; the end."""
    report.count("partitions")
    name = f"{topic.name}-{partition}"
    ranges = segments.ranges.get(topic.key(partition), [])
    reached = table_ends.get(partition)
    needed = past_holes(max(start, reached or 0), known)
    behind = known.durable if segments.is_whole else NO_OFFSET
    _check_seam(name, ranges, needed, behind, report)
    _check_gaps(name, ranges, needed, known, report)
    previous = None
    for first, end in ranges:
        if previous is not None and first < previous:
            report.problems.append(f"{name}: offset {first} is in the segments twice")
        if previous is not None and first > previous:
            report.count("holes_in_segments")
        previous = end
    end = max(start, reached or 0, previous or 0)
    if known.durable > past_holes(end, known):
        report.problems.append(
            f"{name}: offsets {end} to {known.durable - 1} are neither in the table "
            "nor in a segment"
        )
    return max(end, known.durable)


def _check_seam(
    name: str,
    ranges: list[tuple[int, int]],
    needed: int,
    behind: int,
    report: Report,
) -> None:
    """Where the table ends, the segments must go on.

    But from the offset ``behind`` on, that of the checkpoint, only refused batches can
    be missing: no segment there was released, and one that is lost is told by number.
    """
    first = min(ranges[0][0], behind) if ranges else needed
    if first > needed:
        report.problems.append(
            f"{name}: offsets {needed} to {first - 1} are neither in the table "
            "nor in a segment"
        )


def _check_gaps(
    name: str,
    ranges: list[tuple[int, int]],
    needed: int,
    known: LogSnapshot,
    report: Report,
) -> None:
    """Between two batches, only refused ones may be missing beyond the table's end.

    A segment may be left, for another topic's sake, that is older than one that was let
    go: what lay between is in the table, if that has not lost it. Of gaps behind the
    checkpoint nobody knows, and an older version's did not tell.
    """
    for (_, end), (first, _) in pairwise(ranges):
        missing = max(end, needed)
        if known.holes is None or not missing < min(first, known.durable):
            continue
        if past_holes(missing, known) < first:
            report.problems.append(
                f"{name}: offsets {missing} to {first - 1} are neither in the table "
                "nor in a segment"
            )
