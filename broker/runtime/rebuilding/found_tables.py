"""What the tables of a warehouse say of topics.

The problem: the warehouse holds more than the tables of topics that are alive: those of
deleted ones, copies that owners made, what is no table at all, and tables whose log is
damaged. The idea: a table counts for a topic only where that topic's table lies; one in
a place for deleted topics is of a deleted one; the rest is remarked, and left alone.
Of a damaged log each entry that can be read is asked for the topic, so that this is
served once its log has been put right: a broker that cannot read a table serves all
others (`broker.lake`).

The price: all tables are loaded, one after the other.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from lakehouse import further
from lakehouse.errors import LakehouseError, LocationRefused
from lakehouse.location import check_contained, directory_name, is_set_aside
from lakehouse.log.actions import parse_commit
from lakehouse.log.delta_log import (
    Snapshot,
    entry_versions,
    exists,
    load,
    read_entry,
    table_ends,
)
from lakehouse.topic_facts import TopicFacts, facts_of, log_starts_of


class FoundTable(NamedTuple):
    """A topic's table. ``ends``: partition -> first offset that it has not, and
    ``log_starts``; ``problem``: why it cannot be read, in one sentence."""

    path: str
    facts: TopicFacts
    ends: dict[int, int]
    log_starts: dict[int, int]
    is_deleted: bool = False
    created_ms: int | None = None
    problem: str | None = None

    @property
    def partitions(self) -> int:
        """How many partitions it knows of at least."""
        return max(self.facts.partitions, *(p + 1 for p in self.ends), 1)


@dataclass(slots=True)
class FoundTables:
    """``problems`` name tables that cannot be read, ``remarks`` what is no topic's;
    ``nameless``: directories of tables of which nobody can read whose they are, or that
    nobody finds."""

    tables: list[FoundTable] = field(default_factory=list)
    nameless: set[str] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


def find_tables(warehouse: Path) -> FoundTables:
    """All tables below ``warehouse``, the living first, by the names of directories,
    and those of deleted topics in further warehouses that are there. Blocks. Raises
    OSError if one cannot be listed."""
    found = FoundTables()
    for path in _places(warehouse):
        try:
            check_contained(path)
        except LocationRefused as error:
            found.problems.append(f"the table {path} cannot be read: {error}")
            found.nameless.add(os.path.basename(path))
            continue
        table = _look(path, is_set_aside(os.path.basename(path)), found)
        if table is not None:
            found.tables.append(table)
    for base in further.present(str(warehouse)).values():
        for name, problem in _unled(str(warehouse), base):
            found.problems.append(problem)
            found.nameless.add(name)
    return found


def _places(warehouse: Path) -> list[str]:
    """Of what may be tables; those of deleted topics at last."""
    bases = [str(warehouse), *further.present(str(warehouse)).values()]
    listed = [
        (base, name)
        for base in bases
        for name in (sorted(os.listdir(base)) if os.path.isdir(base) else [])
        if is_set_aside(name) or (base == bases[0] and not name.startswith("."))
    ]
    found = [(name, os.path.join(base, name)) for base, name in listed]
    ordered = sorted(found, key=lambda one: is_set_aside(one[0]))
    return [path for _, path in ordered if os.path.isdir(path) and exists(path)]


def _unled(warehouse: str, base: str) -> list[tuple[str, str]]:
    """Directory and one sentence for each table in a further warehouse whose link was
    lost: nobody finds it without."""
    found = []
    for name in sorted(os.listdir(base)):
        path, place = os.path.join(base, name), os.path.join(warehouse, name)
        if name.startswith(".") or os.path.exists(place) or not exists(path):
            continue
        text = os.path.relpath(path, warehouse)
        why = (
            f"no link leads to the table {path}, which is left alone: make it with "
            f"`ln -s {text} {place}`, and this again"
        )
        found.append((name, why))
    return found


def _look(path: str, is_deleted: bool, found: FoundTables) -> FoundTable | None:
    try:
        snapshot, problem = load(path, keep_removed=False), None
    except (LakehouseError, OSError, ValueError) as error:
        snapshot, problem = _readable_part(path), str(error) or type(error).__name__
    facts = facts_of(snapshot.configuration)
    if problem is not None:
        known = "whose it is cannot be read" if facts is None else f"topic {facts.name}"
        found.problems.append(f"the table {path} ({known}) cannot be read: {problem}")
    if facts is None:
        if problem is None:
            found.remarks.append(f"{path} is no topic's table, and is left alone")
        else:
            found.nameless.add(os.path.basename(path))
        return None
    if not is_deleted and os.path.basename(path) != directory_name(facts.name):
        found.remarks.append(
            f"{path} is a copy of the table of topic {facts.name}, and is left alone"
        )
        return None
    return FoundTable(
        path,
        facts,
        table_ends(snapshot, facts.id),
        log_starts_of(snapshot.transactions, facts.id),
        is_deleted,
        None if snapshot.metadata is None else snapshot.metadata.created_ms,
        problem,
    )


def _readable_part(path: str) -> Snapshot:
    """What those entries say that can be read, of a log that is damaged; its ends are
    those of the last one, and may be too low: nobody goes by them."""
    snapshot = Snapshot(path, keeps_removed=False)
    for version in _versions(path):
        try:
            commit = parse_commit(version, read_entry(path, version))
        except (LakehouseError, OSError, ValueError):
            continue
        if commit.metadata is not None and facts_of(commit.metadata.configuration):
            snapshot.metadata = commit.metadata
        snapshot.transactions.update(commit.transactions)
    return snapshot


def _versions(path: str) -> Iterable[int]:
    try:
        return entry_versions(path)
    except OSError:
        return []
