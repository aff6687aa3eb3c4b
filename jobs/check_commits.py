"""Every commit of a topic's table: did it add what the log had, and no more?

The problem: files that agree with their own statistics prove nothing about rows that
never reached a file. The idea: replay the Delta log and count. A commit of the
compactor says which offsets it covers and how many records the log held there
(`lakehouse.properties.ROWS`); its files must hold just as many. Offsets that never were
a record (a refused batch) are the difference between the two. A commit that lets
expired files go may only take what lies below the log's start, and a rewrite
(OPTIMIZE, REORG, the compactor's merge) must leave as many rows as it took. All other
removals are the owner's, and so are rows that a deletion vector takes: they are
counted, and legal. Key compaction leaves fewer rows than it took, and says how many.

The price: commits from before the count was written can only be held against the
length of their range; a difference there is a remark. Pure.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from jobs.check_report import Report
from lakehouse.log.actions import Commit, DataFile
from lakehouse.properties import CLEANED, ERASED, LOG_START, MERGED

_REWRITES = frozenset({"OPTIMIZE", "REORG"})
_UNKNOWN = -1


@dataclass(slots=True)
class CommitAudit:
    """Replays the commits of one table, in order. ``topic`` is for the sentences."""

    topic: str
    report: Report
    ends: dict[int, int] = field(default_factory=dict)
    """Partition -> where the last commit that covered it ends."""
    _files: dict[str, DataFile] = field(default_factory=dict)

    def apply(self, commit: Commit) -> None:
        """Judge the next commit, and move on by it."""
        self.report.count("commits")
        gone = [self._files[path] for path in commit.removes if path in self._files]
        if commit.ranges:
            self._audit_round(commit)
        elif LOG_START in commit.info:
            self._audit_expiry(commit, gone)
        elif MERGED in commit.info:
            self._audit_merge(commit, gone)
        elif CLEANED in commit.info:
            self._audit_clean(commit, gone)
        elif ERASED in commit.info:
            self._audit_erasure(commit)
        elif len(gone) == len(commit.removes):
            self._audit_owner(commit, gone)
        for path in commit.removes:
            self._files.pop(path, None)
        self._files |= {file.path: file for file in commit.adds}

    def _audit_round(self, commit: Commit) -> None:
        added = _rows_by_partition(commit.adds)
        for partition, (first, end) in commit.ranges.items():
            expected = self.ends.get(partition, first)
            if first != expected:
                self._problem(
                    partition,
                    f"version {commit.version} adds from {first}, and the table "
                    f"ended at {expected}",
                )
            self.ends[partition] = end
            self._audit_rows(commit, partition, added.pop(partition, 0))
        for partition in added:
            self._problem(
                partition, f"version {commit.version} adds rows outside its ranges"
            )

    def _audit_rows(self, commit: Commit, partition: int, rows: int) -> None:
        """Hold the rows of a round's files against what the log held."""
        first, end = commit.ranges[partition]
        records = commit.rows.get(partition)
        if rows == _UNKNOWN:
            return
        if rows > end - first:
            self._problem(
                partition,
                f"version {commit.version} adds {rows} rows to {end - first} offsets",
            )
        elif records is None and rows < end - first:
            self.report.remarks.append(
                f"{self.topic}-{partition}: version {commit.version} adds {rows} rows "
                f"for {end - first} offsets, and is too old to say why"
            )
        elif records is not None and rows != records:
            self._problem(
                partition,
                f"version {commit.version} adds {rows} rows, and the log had "
                f"{records} records in {first} to {end}",
            )
        else:
            self.report.count("offsets_without_record", end - first - rows)

    def _audit_expiry(self, commit: Commit, gone: list[DataFile]) -> None:
        starts: Mapping[str, int] = commit.info[LOG_START] or {}
        for file in gone:
            if file.last_offset >= int(starts.get(str(file.partition), 0)):
                self._problem(
                    file.partition,
                    f"version {commit.version} removes {file.path} as expired, which "
                    "reaches above the log's start",
                )
        self.report.count("rows_expired", _sum_known(gone))

    def _audit_merge(self, commit: Commit, gone: list[DataFile]) -> None:
        """The compactor's own rewrite leaves as many rows as it took, as it says."""
        self.report.count("merges")
        wrong = commit.miscounted
        if wrong is not None:
            self._problem(
                wrong, f"version {commit.version} does not merge the files that it says"
            )
        if len(gone) == len(commit.removes):
            self._audit_rewrite(commit, gone)

    def _audit_clean(self, commit: Commit, gone: list[DataFile]) -> None:
        """Key compaction takes rows of files in its range alone, as many as it says."""
        self.report.count("cleans")
        wrong = commit.miscounted
        if wrong is not None:
            self._problem(
                wrong, f"version {commit.version} does not clean the files that it says"
            )
        for partition, said in commit.cleaned.items():
            took = _rows_by_partition(gone).get(partition, 0)
            if len(gone) == len(commit.removes) and took not in (_UNKNOWN, said.rows):
                self._problem(
                    partition,
                    f"version {commit.version} says that it cleans {said.rows} rows, "
                    f"and takes {took}",
                )
            inside = range(said.first_offset, said.end_offset)
            if any(f.last_offset not in inside for f in (*gone, *commit.adds)):
                self._problem(
                    partition, f"version {commit.version} cleans outside its range"
                )
            self.report.count("rows_superseded", said.rows - said.kept)

    def _audit_erasure(self, commit: Commit) -> None:
        """What was erased is gone, and counted; what was not came back in full."""
        self.report.count("erasures")
        wrong = commit.miscounted
        if wrong is not None:
            self._problem(
                wrong, f"version {commit.version} does not erase what it says"
            )
        self.report.count("rows_erased", sum(e.rows for e in commit.erased.values()))

    def _audit_rewrite(self, commit: Commit, gone: list[DataFile]) -> None:
        for partition, took, left in _differences(gone, commit.adds):
            self._problem(
                partition, f"version {commit.version} rewrites {took} rows as {left}"
            )

    def _audit_owner(self, commit: Commit, gone: list[DataFile]) -> None:
        if commit.info.get("operation") in _REWRITES:
            self._audit_rewrite(commit, gone)
        for _, took, left in _differences(gone, commit.adds):
            self.report.count("rows_deleted_by_owner", max(0, took - left))

    def _problem(self, partition: int, sentence: str) -> None:
        self.report.problems.append(f"{self.topic}-{partition}: {sentence}")


def _differences(
    gone: Iterable[DataFile], came: Iterable[DataFile]
) -> Iterator[tuple[int, int, int]]:
    """(Partition, rows that left, rows that came) where both are known and differ."""
    before, after = _rows_by_partition(gone), _rows_by_partition(came)
    for partition in before.keys() | after.keys():
        took, left = before.get(partition, 0), after.get(partition, 0)
        if took != left and _UNKNOWN not in (took, left):
            yield partition, took, left


def _rows_by_partition(files: Iterable[DataFile]) -> dict[int, int]:
    """Partition -> rows of these files; -1 where one does not say how many it has."""
    rows: dict[int, int] = {}
    for file in files:
        known = rows.get(file.partition, 0)
        unknown = _UNKNOWN in (known, file.rows)
        rows[file.partition] = _UNKNOWN if unknown else known + file.rows
    return rows


def _sum_known(files: Iterable[DataFile]) -> int:
    return sum(max(0, file.rows) for file in files)
