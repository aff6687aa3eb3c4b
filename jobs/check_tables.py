"""Every file of a topic's table against what the Delta log says of it.

Each file is read whole, row group by row group (so that damaged pages are found), and
its rows are compared with its statistics; no offset may be there twice, and no file of
the compactor's may reach above the table's end. What the commits added is audited by
`check_commits`.
"""

import os
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from broker.topics.topic import Topic
from jobs.check_commits import CommitAudit
from jobs.check_report import Report
from jobs.maintain import OURS
from lakehouse.actions import DataFile, parse_commit
from lakehouse.delta_log import Snapshot, load, read_entry, table_ends
from lakehouse.errors import LakehouseError, TableMissing
from lakehouse.index import OffsetIndex
from lakehouse.location import table_path

_READ_ATTEMPTS = 2


@dataclass(slots=True)
class TableFound:
    """``ends``: partition -> first offset that the table has not."""

    ends: dict[int, int] = field(default_factory=dict)


def check_table(warehouse: Path, topic: Topic, report: Report) -> TableFound:
    """Verify the table of a topic, if it has one."""
    found = TableFound()
    try:
        snapshot = load(table_path(warehouse, topic.name))
        if snapshot.topic_id != topic.id.hex():
            return found
    except TableMissing:
        return found
    except LakehouseError as error:
        report.problems.append(f"{topic.name}: {error}")
        return found
    found.ends = table_ends(snapshot, topic.id.hex())
    report.count("tables")
    if snapshot.torn:
        report.count("torn_log_entries")
    _check_commits(snapshot, topic, found.ends, report)
    if snapshot.unreadable:
        report.remarks.append(
            f"{topic.name}: its files cannot be verified: {snapshot.unreadable}"
        )
        return found
    _check_files(snapshot, topic, found.ends, report)
    return found


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
    for partition, end in audit.ends.items():
        if ends.get(partition) != end:
            report.problems.append(
                f"{topic.name}-{partition}: its commits reach to {end}, and the end "
                f"of the table is {ends.get(partition)}"
            )


def _check_files(
    snapshot: Snapshot, topic: Topic, ends: dict[int, int], report: Report
) -> None:
    seen: dict[int, list[Any]] = {}
    index = OffsetIndex.of(snapshot)
    for file in snapshot.files.values():
        report.count("files")
        try:
            offsets = _check_file(snapshot.path, file, topic, report)
        except FileNotFoundError:
            _check_vanished(snapshot.path, file, topic, report)
            continue
        except Exception as error:  # noqa: BLE001  (Arrow has many ways to say damaged)
            report.problems.append(f"{topic.name}: {file.path}: {error}")
            continue
        if len(offsets):
            seen.setdefault(file.partition, []).append(offsets)
            _check_end(file, int(offsets[-1]), ends.get(file.partition), topic, report)
            _check_index(index, file, offsets, topic, report)
    for partition, parts in seen.items():
        _check_unique(f"{topic.name}-{partition}", parts, report)


def _check_vanished(path: str, file: DataFile, topic: Topic, report: Report) -> None:
    """A file that left the table while we looked is nobody's problem."""
    if file.path in load(path).files:
        report.problems.append(f"{topic.name}: {file.path} is missing")


def _check_file(path: str, file: DataFile, topic: Topic, report: Report) -> Any:
    """Read it all; returns its offsets, sorted."""
    import numpy as np
    import pyarrow.parquet as pq

    full = os.path.join(path, file.relative_path)
    parts, partitions, micros = [], set(), []
    with pq.ParquetFile(full) as parquet:
        for number in range(parquet.num_row_groups):
            group = parquet.read_row_group(number, use_threads=False)
            report.count("rows", group.num_rows)
            parts.append(group["offset"].to_numpy())
            micros.append(_micros(group["timestamp"]))
            if "partition" in group.column_names:
                partitions |= set(group["partition"].unique().to_pylist())
    offsets = np.sort(np.concatenate(parts)) if parts else np.empty(0, np.int64)
    where = f"{topic.name}: {file.path}"
    if os.path.getsize(full) != file.size:
        report.problems.append(f"{where} has not the size that the log says")
    if file.rows not in (-1, len(offsets)):
        report.problems.append(f"{where} has {len(offsets)} rows, not {file.rows}")
    if partitions - {file.partition}:
        report.problems.append(f"{where} holds rows of other partitions")
    if len(offsets):
        _check_bounds(where, file, offsets, np.concatenate(micros), report)
    return offsets


def _micros(column: Any) -> Any:
    return column.cast("int64").to_numpy()


def _check_bounds(
    where: str, file: DataFile, offsets: Any, micros: Any, report: Report
) -> None:
    """Statistics may be wider than the rows (after a rewrite), never narrower."""
    if offsets[0] < file.first_offset or offsets[-1] > file.last_offset:
        report.problems.append(f"{where} has offsets outside its statistics")
    first_ms, last_ms = int(micros.min()) // 1000, int(micros.max()) // 1000
    if first_ms < file.timestamp_min_ms or last_ms > file.timestamp_max_ms:
        report.problems.append(f"{where} has timestamps outside its statistics")


def _check_index(
    index: OffsetIndex, file: DataFile, offsets: Any, topic: Topic, report: Report
) -> None:
    """The index leads from an offset to the file that holds it."""
    files = index.files_of(file.partition)
    for offset in (int(offsets[0]), int(offsets[-1])):
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
    sentence = (
        f"{topic.name}-{file.partition}: offset {highest} is in the table, whose end "
        f"is {end}"
    )
    if OURS.fullmatch(file.relative_path):
        report.problems.append(sentence)
    else:
        report.remarks.append(f"{sentence}: its owner's row, where a record is to come")


def _check_unique(name: str, parts: list[Any], report: Report) -> None:
    import numpy as np

    parts.sort(key=lambda part: part[0])
    apart = all(a[-1] < b[0] for a, b in pairwise(parts))
    if apart:  # each file is looked at alone: nothing is copied
        doubled = sum(int((np.diff(part) == 0).sum()) for part in parts)
    else:
        doubled = int((np.diff(np.sort(np.concatenate(parts))) == 0).sum())
    if doubled:
        report.problems.append(f"{name}: {doubled} offsets are in the table twice")
