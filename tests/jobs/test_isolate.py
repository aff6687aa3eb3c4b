"""A slice that kills its worker fails alone."""

import subprocess
import sys

import pytest

from jobs.isolate import spread_isolated
from jobs.rows import Failed, FileTask, Written
from tests.support.patience import STUCK_S


def task(name: str) -> FileTask:
    return FileTask("root", name, "t", 0, 0, 1, [])


def written(file: FileTask) -> Written:
    return Written(file.path, 1, 1, 0, 0, 0, 0, 0)


class Workers:
    """Fails a job that has one of ``killers`` in it."""

    def __init__(self, *killers: str) -> None:
        self.killers, self.jobs, self.gone = set(killers), 0, False

    def spread(self, tasks: list[list[FileTask]]) -> list[list[Written | Failed]]:
        self.jobs += 1
        if self.gone or self.killers & {f.path for t in tasks for f in t}:
            raise RuntimeError("Python worker exited unexpectedly (crashed)\nat java")
        return [[written(file) for file in t] for t in tasks]


TASKS = [[task("a"), task("b"), task("c")], [task("d"), task("e")]]


def test_without_a_killer_it_is_one_job() -> None:
    workers = Workers()
    assert spread_isolated(workers.spread, TASKS) == workers.spread(TASKS)
    assert workers.jobs == 2


@pytest.mark.parametrize("killers", ["a", "e", "bd", "abcde"])
def test_only_the_killers_fail_and_results_keep_their_order(killers: str) -> None:
    results = spread_isolated(Workers(*killers).spread, TASKS)
    assert [[one.path for one in t] for t in results] == [list("abc"), list("de")]
    for one in (one for t in results for one in t):
        assert isinstance(one, Failed) == (one.path in killers)
    failed = [one for t in results for one in t if isinstance(one, Failed)]
    assert "exited unexpectedly (crashed)" in failed[0].why
    assert "java" not in failed[0].why
    assert not failed[0].stale


def test_when_nothing_runs_at_all_it_is_told_as_it_is() -> None:
    workers = Workers()
    workers.gone = True
    with pytest.raises(RuntimeError, match="exited"):
        spread_isolated(workers.spread, TASKS)
    assert workers.jobs == 2


@pytest.mark.parametrize("jobs", range(2, 7))
def test_whom_spark_dies_under_is_not_to_blame(jobs: int) -> None:
    workers = Workers("b")

    def spread(tasks: list[list[FileTask]]) -> list[list[Written | Failed]]:
        workers.gone = workers.jobs >= jobs
        return workers.spread(tasks)

    with pytest.raises(RuntimeError, match="exited"):
        spread_isolated(spread, TASKS)


PROGRAM = """
import os, signal, sys
from pyspark import SparkContext
from jobs.isolate import first_line, spread_isolated
from jobs.rows import Failed, FileTask, Written
from tests.support.patience import STUCK_S
from jobs.session import make_session

def work(files):
    for file in files:
        if file.path == "killer":
            os.kill(os.getpid(), signal.SIGKILL)
    return [Written(file.path, 1, 1, 0, 0, 0, 0, 0) for file in files]

def spread(tasks):
    global jobs
    jobs += 1
    if jobs == last_of_jvm:
        SparkContext._gateway.proc.kill()
    return context.parallelize(tasks, len(tasks)).map(work).collect()

tasks = [[FileTask("root", name, "t", 0, 0, 1, [])] for name in ("a", "killer", "c")]
context = make_session("local[2]", "isolate").sparkContext
for last_of_jvm in (0, 4):
    jobs = 0
    try:
        found = [one for [one] in spread_isolated(spread, tasks)]
        print("blamed", *(one.path for one in found if isinstance(one, Failed)))
    except Exception as error:
        print("raised", first_line(error))
os._exit(0)
"""


@pytest.mark.spark
def test_a_killed_worker_is_told_from_a_killed_jvm() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        stdout=subprocess.PIPE,
        text=True,
        timeout=2 * STUCK_S,
    )
    said = [line.split() for line in done.stdout.splitlines()]
    assert ["blamed", "killer"] in said
    assert [words[0] for words in said if words[0] in ("blamed", "raised")] == [
        "blamed",
        "raised",
    ]
