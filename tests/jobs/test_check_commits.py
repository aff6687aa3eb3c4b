"""The audit of commits, each case a commit or two."""

from typing import Any

import pytest

from jobs.check_commits import CommitAudit
from jobs.check_report import Report
from lakehouse.log.actions import Commit, DataFile


def file(name: str, rows: int, first: int = 0, partition: int = 0) -> DataFile:
    last = first + rows - 1
    return DataFile(name, partition, 100, rows, first, last, 0, 0, 0, False)


def round_(
    version: int, ranges: dict[str, list[int]], rows: Any, *files: DataFile
) -> Commit:
    info = {"lakelog.ranges": ranges}
    if rows is not None:
        info["lakelog.rows"] = rows
    return Commit(version, adds=list(files), info=info)


def audited(*commits: Commit) -> Report:
    report = Report()
    audit = CommitAudit("t", report)
    for commit in commits:
        audit.apply(commit)
    return report


FIRST = round_(1, {"0": [0, 10]}, {"0": 10}, file("a", 10))


def owner(operation: str, removes: list[str], *adds: DataFile) -> Commit:
    return Commit(
        2, list(adds), dict.fromkeys(removes, 0), info={"operation": operation}
    )


@pytest.mark.parametrize(
    ("commits", "sentence"),
    [
        ([FIRST, round_(2, {"0": [10, 20]}, {"0": 10}, file("b", 10, 10))], ""),
        ([round_(1, {"0": [0, 10]}, {"0": 6}, file("a", 6))], ""),
        ([round_(1, {"0": [0, 10]}, {"0": 0})], ""),
        ([round_(1, {"0": [0, 10]}, {"0": 10}, file("a", 6))], "10 records in 0 to 10"),
        ([round_(1, {"0": [0, 10]}, None, file("a", 12))], "12 rows to 10 offsets"),
        ([round_(1, {"0": [0, 10]}, {"0": 10}, file("a", 12))], "12 rows to 10"),
        ([FIRST, round_(2, {"0": [11, 20]}, None)], "the table ended at 10"),
        (
            [round_(1, {"0": [0, 10]}, {"0": 0}, file("a", 3, 0, partition=1))],
            "t-1: version 1 adds rows outside its ranges",
        ),
        ([FIRST, owner("DELETE", ["a"], file("b", 4))], ""),
        ([FIRST, owner("OPTIMIZE", ["a"], file("b", 10))], ""),
        ([FIRST, owner("OPTIMIZE", ["a"], file("b", 4))], "rewrites 10 rows as 4"),
        ([FIRST, owner("REORG", ["a"], file("b", 4))], "rewrites 10 rows as 4"),
        ([FIRST, Commit(2, [], {"a": 0}, info={"lakelog.logStart": {"0": 10}})], ""),
        (
            [FIRST, Commit(2, [], {"a": 0}, info={"lakelog.logStart": {"0": 9}})],
            "reaches above the log's start",
        ),
        ([owner("OPTIMIZE", ["from before"], file("b", 4))], ""),
        ([round_(1, {"0": [0, 10]}, {"0": 10}, file("a", -1))], ""),
    ],
)
def test_a_commit_adds_what_the_log_had(commits: list[Commit], sentence: str) -> None:
    problems = audited(*commits).problems
    assert len(problems) == bool(sentence)
    assert sentence in "".join(problems)


def test_what_the_owner_and_retention_took_is_counted() -> None:
    report = audited(FIRST, owner("DELETE", ["a"], file("b", 4)))
    assert report.counts["rows_deleted_by_owner"] == 6
    report = audited(
        FIRST, Commit(2, [], {"a": 0}, info={"lakelog.logStart": {"0": 10}})
    )
    assert report.counts["rows_expired"] == 10


def test_an_old_commit_cannot_say_which_offsets_had_no_record() -> None:
    report = audited(round_(1, {"0": [0, 10]}, None, file("a", 6)))
    assert report.ok
    assert len(report.remarks) == 1


def merge(said: Any, removes: list[str], *adds: DataFile) -> Commit:
    info = {"lakelog.merged": said, "operation": "LAKELOG MERGE"}
    return Commit(2, list(adds), dict.fromkeys(removes, 0), info=info)


def test_a_merge_leaves_the_rows_that_it_took() -> None:
    report = audited(FIRST, merge({"0": [1, 10]}, ["a"], file("b", 10)))
    assert report.problems == []
    assert report.counts["merges"] == 1


@pytest.mark.parametrize(
    ("said", "left"),
    [([1, 10], 9), ([2, 10], 10), ([1, 11], 10), ([1, 9], 9)],
)
def test_a_merge_that_lacks_something_is_a_problem(said: list[int], left: int) -> None:
    report = audited(FIRST, merge({"0": said}, ["a"], file("b", left)))
    assert report.problems


def clean(said: Any, removes: list[str], *adds: DataFile) -> Commit:
    info = {"lakelog.cleaned": said, "operation": "LAKELOG CLEAN"}
    return Commit(2, list(adds), dict.fromkeys(removes, 0), info=info)


def test_a_clean_leaves_the_rows_that_it_says() -> None:
    said = {"0": [0, 10, 1, 10, 4]}
    report = audited(FIRST, clean(said, ["a"], file("b", 4)))
    assert report.problems == []
    assert (report.counts["cleans"], report.counts["rows_superseded"]) == (1, 6)


def erasure(said: Any, removes: list[str], *adds: DataFile) -> Commit:
    info = {"lakelog.erased": {"request": "ab"} | said, "operation": "LAKELOG ERASE"}
    return Commit(2, list(adds), dict.fromkeys(removes, 0), info=info)


def test_an_erasure_leaves_the_rows_that_it_says() -> None:
    report = audited(FIRST, erasure({"0": [1, 4, 6]}, ["a"], file("b", 4)))
    assert report.problems == []
    assert (report.counts["erasures"], report.counts["rows_erased"]) == (1, 6)
    report = audited(FIRST, erasure({"0": [1, 0, 10]}, ["a"]))
    assert (report.problems, report.counts["rows_erased"]) == ([], 10)


@pytest.mark.parametrize("said", [[1, 5, 5], [2, 4, 6]])
def test_an_erasure_that_lacks_something_is_a_problem(said: list[int]) -> None:
    report = audited(FIRST, erasure({"0": said}, ["a"], file("b", 4)))
    assert report.problems == ["t-0: version 2 does not erase what it says"]


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ([0, 10, 1, 10, 4], 3),
        ([0, 10, 2, 10, 4], 4),
        ([0, 10, 1, 11, 4], 4),
        ([0, 2, 1, 10, 4], 4),
    ],
    ids=["a row is missing", "a file too many", "rows that were not", "outside"],
)
def test_a_clean_that_lacks_something_is_a_problem(said: list[int], left: int) -> None:
    report = audited(FIRST, clean({"0": said}, ["a"], file("b", left)))
    assert report.problems
