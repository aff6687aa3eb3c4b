"""One merge or clean at a time, beside the rounds and behind them.

The problem: either takes seconds to minutes, and the compactor's step must not wait
for it. The idea: a thread waits for Spark; the step asks whether there is a result.
Spark has a slot for it beside those of the rounds (`jobs.driver`), so no round waits
for one either.
"""

import threading
from collections.abc import Callable
from typing import Any, Protocol

from jobs.cleaning import rewrite as cleaning
from jobs.cleaning.rewrite import Cleaned, CleanTask
from jobs.merging import rewrite as merging
from jobs.merging.rewrite import Merged, MergeTask
from jobs.rows import Failed

Task = MergeTask | CleanTask
Done = Merged | Cleaned | Failed
Run = Callable[[Task], Done]


class Runner(Protocol):
    """Runs one task at a time."""

    def start(self, task: Task) -> None:
        """Begin; nothing may be under way."""

    def take(self) -> Done | None:
        """What came of it, once; None: it is under way."""

    def wait(self, timeout_s: float | None = None) -> None:
        """Until it is done, or so long; blocks."""


class Background:
    """On a thread of its own, which does not hold up the end of the process."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._done: Done | None = None
        self._thread: threading.Thread | None = None

    def start(self, task: Task) -> None:
        """Begin; nothing may be under way."""
        assert self._thread is None, "one at a time"
        self._thread = threading.Thread(
            target=self._work, args=(task,), name="merge", daemon=True
        )
        self._thread.start()

    def take(self) -> Done | None:
        """What came of it, once; None: it is under way."""
        if self._thread is None or self._thread.is_alive():
            return None
        done, self._done, self._thread = self._done, None, None
        return done

    def wait(self, timeout_s: float | None = None) -> None:
        """Until it is done, or so long; blocks."""
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _work(self, task: Task) -> None:
        try:
            self._done = self._run(task)
        except Exception as error:  # noqa: BLE001  (Spark has many ways to say it)
            why = str(error).splitlines()
            self._done = Failed(task.path, why[0] if why else "", stale=False)


def work(task: Task) -> Done:
    """What a Spark task does, at the lowest priority."""
    if isinstance(task, CleanTask):
        return cleaning.work(task)
    return merging.work(task)


def on_spark(context: Any) -> Run:
    """By one worker of a SparkContext."""

    def run(task: Task) -> Done:
        [done] = context.parallelize([task], 1).map(work).collect()
        found: Done = done
        return found

    return run
