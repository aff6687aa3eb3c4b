"""The commits of a table, the newest first, out of its Delta log.

Old entries leave the log (after a week, unless its owner says otherwise): the list
ends where the log does.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from admin_api.commits.schemas import Commit, CommitRange
from admin_api.commits.times import is_number, number, time_of
from admin_api.resources import printable
from lakehouse.errors import LakehouseError, LogDamaged
from lakehouse.log.actions import Commit as Entry
from lakehouse.log.actions import parse_commit
from lakehouse.log.delta_log import Snapshot, read_entry
from lakehouse.properties import (
    CLEANED,
    DESCRIBED,
    ERASED,
    LOG_START,
    MERGED,
    RANGES,
    TOPIC_ID,
)

_DURATIONS = ("executionTimeMs", "execution_time_ms", "total_execution_time_ms")


class History(NamedTuple):
    """A page of commits; ``last`` None: the log ends here."""

    commits: list[Commit]
    last: int | None


def history(snapshot: Snapshot, below: int | None, size: int) -> History:
    """At most ``size`` commits ``below`` a version (None: from the newest); blocks."""
    newest = snapshot.version + 1
    version = newest if below is None else min(below, newest)
    commits: list[Commit] = []
    while version > 0:
        if len(commits) == size:
            return History(commits, version)
        version -= 1
        try:
            text = read_entry(snapshot.path, version)
        except FileNotFoundError:
            break
        except LogDamaged as error:  # no file stands there
            commits.append(_empty(version, problem=printable(str(error))))
            continue
        commits.append(_commit(snapshot.path, version, text))
    return History(commits, None)


def _commit(path: str, version: int, text: bytes) -> Commit:
    try:
        entry = parse_commit(version, text)
        commit = render(entry)
    except (ValueError, LakehouseError) as error:
        return _empty(version, problem=printable(str(error)))
    commit.timestamp_ms = time_of(path, version, entry.info)
    return commit


def render(entry: Entry) -> Commit:
    """An entry, as people want to see it, but for its time, which is the file's."""
    rows = [file.rows for file in entry.adds]
    info = entry.info
    commit = _empty(entry.version)
    commit.operation = _text(info.get("operation"))
    commit.written_by = _writer(entry)
    commit.engine = _text(info.get("engineInfo") or info.get("clientVersion"))
    commit.ranges = _ranges(entry)
    commit.log_starts = _log_starts(info)
    commit.files_added = len(entry.adds)
    commit.bytes_added = sum(file.size for file in entry.adds)
    commit.rows_added = None if -1 in rows else sum(rows)
    commit.files_removed = len(entry.removes)
    commit.duration_ms = _duration_ms(info.get("operationMetrics"))
    return commit


def _empty(version: int, problem: str | None = None) -> Commit:
    return Commit(
        version=version,
        timestamp_ms=None,
        operation=None,
        written_by="other",
        engine=None,
        ranges=[],
        log_starts={},
        files_added=0,
        bytes_added=0,
        rows_added=None,
        files_removed=0,
        duration_ms=None,
        problem=problem,
    )


_WRITERS = {
    RANGES: "compactor",
    MERGED: "merge",
    CLEANED: "cleaning",
    ERASED: "erase",
    LOG_START: "retention",
    DESCRIBED: "compactor",
}


def _writer(entry: Entry) -> str:
    for key, writer in _WRITERS.items():
        if key in entry.info:
            return writer
    return "compactor" if _makes_table(entry) else "other"


def _makes_table(entry: Entry) -> bool:
    """Whether it is how a topic's table begins. The library writes that entry, and an
    owner's copy of a table has the topic's properties, too, but is no new table."""
    is_new = entry.version == 0 and entry.info.get("operation") == "CREATE TABLE"
    made = entry.metadata
    return is_new and made is not None and TOPIC_ID in made.configuration


def _ranges(entry: Entry) -> list[CommitRange]:
    records = entry.rows
    return [
        CommitRange(
            partition_id=partition,
            first_offset=first,
            end_offset=end,
            records=records.get(partition),
        )
        for partition, (first, end) in sorted(entry.ranges.items())
    ]


def _log_starts(info: Mapping[str, Any]) -> dict[int, int]:
    """Anybody may write anything there; what makes no sense is left out."""
    said = info.get(LOG_START)
    if not isinstance(said, dict):
        return {}
    found = {key: number(value) for key, value in said.items() if is_number(key)}
    return {int(key): value for key, value in found.items() if value is not None}


def _duration_ms(metrics: Any) -> int | None:
    """Spark says it as text, deltalake as a number, each under a name of its own."""
    if not isinstance(metrics, dict):
        return None
    said = (number(metrics.get(name)) for name in _DURATIONS)
    return next((one for one in said if one is not None), None)


def _text(value: Any) -> str | None:
    return printable(value) if isinstance(value, str) else None
