"""Every file of a topic's table against what the Delta log says of it.

Each file is read whole (so that damaged pages are found), and its rows are compared
with its statistics; no offset may be there twice (`check_files`), and no file of the
compactor's may reach above the table's end. What the commits added is audited by
`check_commits`.
"""

import os
from dataclasses import dataclass, field
from pathlib import Path

from broker.topics.topic import Topic
from jobs.check_commits import CommitAudit
from jobs.check_compactions import check_compactions
from jobs.check_files import Span, check_file, doubled
from jobs.check_report import Report
from jobs.merging.names import span_of
from lakehouse.errors import FileVanished, LakehouseError, TableMissing
from lakehouse.index import OffsetIndex
from lakehouse.location import table_path
from lakehouse.log.actions import NO_PARTITION, DataFile, parse_commit
from lakehouse.log.checksums import differing
from lakehouse.log.delta_log import (
    LOG_DIRECTORY,
    Snapshot,
    load,
    read_entry,
    table_ends,
    unproven_ends,
)
from lakehouse.log.ours import why_no_commit
from lakehouse.log.remarks import remarks_of
from lakehouse.log.replaced import why_replaced
from lakehouse.tables import find_lost, why_taken
from lakehouse.warehouse_names import name_of


@dataclass(slots=True)
class TableFound:
    """``ends``: partition -> first offset that the table has not. ``report``: what is
    to be said of it, if its topic is still there when all tables were read."""

    ends: dict[int, int] = field(default_factory=dict)
    report: Report = field(default_factory=Report)


def check_table(warehouse: Path, topic: Topic) -> TableFound:
    """Verify the table of a topic, if it has one."""
    found = TableFound()
    report = found.report
    try:
        snapshot = load(table_path(warehouse, topic.name))
        if snapshot.topic_id != topic.id.hex():
            _report_taken(snapshot, topic, report)
            return found
    except TableMissing:
        name = name_of(topic.configs)
        lost = find_lost(str(warehouse), topic.name, topic.id.hex(), name)
        if lost is not None:
            report.problems.append(
                f"{topic.name}: no link leads to its table {lost}: start a compactor, "
                "which makes it again"
            )
        return found
    except Exception as error:  # noqa: BLE001  (an owner may do anything)
        report.problems.append(f"{topic.name}: {str(error) or type(error).__name__}")
        return found
    found.ends = table_ends(snapshot, topic.id.hex())
    unproven = unproven_ends(snapshot, topic.id.hex())
    if unproven is not None:
        report.problems.append(f"{topic.name}: {unproven}")
    log = os.path.join(snapshot.path, LOG_DIRECTORY)
    for name in dict.fromkeys((*snapshot.damaged, *differing(log))):
        report.problems.append(
            f"{topic.name}: {name} of its log cannot be read, is not as it was "
            "written, or names what is missing"
        )
    check_compactions(snapshot, topic, report)
    report.remarks += [f"{topic.name}: {remark}" for remark in remarks_of(snapshot)]
    report.count("tables")
    if snapshot.torn:
        report.count("torn_log_entries")
    _check_commits(snapshot, topic, found.ends, report)
    _check_rows(snapshot, topic, found.ends, report)
    return found


def _report_taken(snapshot: Snapshot, topic: Topic, report: Report) -> None:
    """Of a table that the topic waits for: what is to be done with it. A problem if it
    was the topic's: consumers get none of its records."""
    identity = topic.id.hex()
    replaced = why_replaced(snapshot, identity)
    if replaced is not None:
        report.problems.append(f"{topic.name}: {replaced}")
        return
    why = why_taken(snapshot.path, topic.name, identity, snapshot)
    if why is not None:
        report.remarks.append(f"{topic.name}: {why}")


def _check_commits(
    snapshot: Snapshot, topic: Topic, ends: dict[int, int], report: Report
) -> None:
    """The commits, as far back as the log goes, join seamlessly and end at the end."""
    audit = CommitAudit(topic.name, report)
    for version in range(snapshot.version + 1):
        try:
            audit.apply(parse_commit(version, read_entry(snapshot.path, version)))
        except FileNotFoundError:
            continue  # cleaned away behind a checkpoint
        except Exception as error:  # noqa: BLE001  (as above)
            report.problems.append(
                f"{topic.name}: log entry {version} cannot be read: {error}"
            )
            audit.ends.clear()  # what follows may go on from what it said
    for partition, end in audit.ends.items():
        if ends.get(partition) != end:
            report.problems.append(
                f"{topic.name}-{partition}: its commits reach to {end}, and the end "
                f"of the table is {ends.get(partition)}"
            )


def _check_rows(
    snapshot: Snapshot, topic: Topic, ends: dict[int, int], report: Report
) -> None:
    """The files, if they can be read; and whether their columns are still ours."""
    unreadable, lost = snapshot.unreadable, why_no_commit(snapshot.metadata)
    if unreadable:
        report.remarks.append(
            f"{topic.name}: its files cannot be verified: {unreadable}"
        )
        return
    if lost is not None:
        report.remarks.append(f"{topic.name}: its table takes no commit: {lost}")
    _check_files(snapshot, topic, ends, report)


def _check_files(
    snapshot: Snapshot, topic: Topic, ends: dict[int, int], report: Report
) -> None:
    seen: dict[int, list[Span]] = {}
    index = snapshot.index
    for file in snapshot.files.values():
        report.count("files")
        where = f"{topic.name}: {file.path}"
        try:
            span = check_file(snapshot.path, file, where, report)
        except FileVanished:
            _check_vanished(snapshot.path, file, topic, report)
            continue
        except Exception as error:  # noqa: BLE001  (Arrow has many ways to say damaged)
            report.problems.append(f"{where}: {error}")
            continue
        if span is not None:
            seen.setdefault(file.partition, []).append(span)
            _check_end(file, span.last_offset, ends.get(file.partition), topic, report)
            _check_index(index, file, span, topic, report)
    for partition, spans in seen.items():
        count = doubled(spans)
        if count:
            name = f"{topic.name}-{partition}"
            report.problems.append(f"{name}: {count} offsets are in the table twice")


def _check_vanished(path: str, file: DataFile, topic: Topic, report: Report) -> None:
    """A file that left the table while we looked is nobody's problem; a table that left
    its place is one, unless its topic was deleted."""
    sentence = f"{topic.name}: {file.path} is missing"
    try:
        now = load(path)
        if now.topic_id == topic.id.hex() and file.path not in now.files:
            return
    except LakehouseError as error:
        sentence = f"{topic.name}: {error}"
    if sentence not in report.problems:
        report.problems.append(sentence)


def _check_index(
    index: OffsetIndex, file: DataFile, span: Span, topic: Topic, report: Report
) -> None:
    """The index leads from an offset to the file that holds it."""
    files = index.files_of(file.partition)
    for offset in (span.first_offset, span.last_offset):
        if file not in (files.cluster(offset) or ()):
            report.problems.append(
                f"{topic.name}: the index does not find offset {offset} in {file.path}"
            )


def _check_end(
    file: DataFile, highest: int, end: int | None, topic: Topic, report: Report
) -> None:
    """No file of the compactor's reaches above the table's end. An owner's may: the
    compactor adds no record where he put a row."""
    if end is not None and highest < end:
        return
    if not 0 <= file.partition < topic.partitions:  # an erasure may have written it
        partition = "null" if file.partition == NO_PARTITION else file.partition
        report.remarks.append(
            f"{topic.name}: its owner's row at offset {highest} is of partition "
            f"{partition}, which the topic does not have: no consumer gets it"
        )
        return
    sentence = (
        f"{topic.name}-{file.partition}: offset {highest} is in the table, whose end "
        f"is {end}"
    )
    if span_of(file.relative_path) is not None:
        report.problems.append(sentence)
    else:
        report.remarks.append(f"{sentence}: its owner's row, where a record is to come")
