"""A merge beside the rounds: nobody waits for it, and what it throws is its result."""

import threading

from jobs.merging.background import Background, on_spark
from jobs.merging.rewrite import MergeTask
from jobs.rows import Failed, Written
from tests.support.patience import IDLE_S

TASK = MergeTask("/nowhere", "partition=0/x.parquet", 0, (), b"", "/nowhere/spill")
DONE = Written(TASK.path, 1, 1, 0, 0, 0, 0, 0)


def test_it_is_asked_until_it_is_done() -> None:
    may_end = threading.Event()

    def run(task: MergeTask) -> Written:
        assert may_end.wait(IDLE_S)
        return DONE

    background = Background(run)
    assert background.take() is None
    background.start(TASK)
    assert background.take() is None
    may_end.set()
    background.wait()
    assert background.take() == DONE
    assert background.take() is None
    background.start(TASK)
    background.wait()
    assert background.take() == DONE


def test_what_it_throws_is_told() -> None:
    def run(task: MergeTask) -> Written:
        raise RuntimeError("Spark is gone\nand says so at length")

    background = Background(run)
    background.start(TASK)
    background.wait()
    assert background.take() == Failed(TASK.path, "Spark is gone", stale=False)


class Context:
    """As much of a SparkContext as a merge uses."""

    def parallelize(self, items: list[MergeTask], slices: int) -> "Context":
        assert slices == len(items) == 1
        self.items = items
        return self

    def map(self, work: object) -> "Context":
        return self

    def collect(self) -> list[Written]:
        return [DONE for _ in self.items]


def test_a_worker_of_spark_gets_one_task() -> None:
    assert on_spark(Context())(TASK) == DONE
