"""One merge at a time, beside the rounds and behind them.

The problem: a merge takes seconds to minutes, and the compactor's step must not wait
for it. The idea: a thread waits for Spark; the step asks whether there is a result.
Spark has a slot for it beside those of the rounds (`jobs.driver`), so no round waits
for one either.
"""

import threading
from collections.abc import Callable
from typing import Any, Protocol

from jobs.merging import rewrite
from jobs.merging.rewrite import MergeTask
from jobs.rows import Failed, Written

Run = Callable[[MergeTask], Written | Failed]


class Runner(Protocol):
    """Runs one merge at a time."""

    def start(self, task: MergeTask) -> None:
        """Begin; nothing may be under way."""

    def take(self) -> Written | Failed | None:
        """What came of it, once; None: it is under way."""

    def wait(self, timeout_s: float | None = None) -> None:
        """Until it is done, or so long; blocks."""


class Background:
    """On a thread of its own, which does not hold up the end of the process."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._done: Written | Failed | None = None
        self._thread: threading.Thread | None = None

    def start(self, task: MergeTask) -> None:
        """Begin; nothing may be under way."""
        assert self._thread is None, "one at a time"
        self._thread = threading.Thread(
            target=self._work, args=(task,), name="merge", daemon=True
        )
        self._thread.start()

    def take(self) -> Written | Failed | None:
        """What came of it, once; None: it is under way."""
        if self._thread is None or self._thread.is_alive():
            return None
        done, self._done, self._thread = self._done, None, None
        return done

    def wait(self, timeout_s: float | None = None) -> None:
        """Until it is done, or so long; blocks."""
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _work(self, task: MergeTask) -> None:
        try:
            self._done = self._run(task)
        except Exception as error:  # noqa: BLE001  (Spark has many ways to say it)
            why = str(error).splitlines()
            self._done = Failed(task.path, why[0] if why else "", stale=False)


def on_spark(context: Any) -> Run:
    """By one worker of a SparkContext."""

    def run(task: MergeTask) -> Written | Failed:
        [done] = context.parallelize([task], 1).map(rewrite.work).collect()
        found: Written | Failed = done
        return found

    return run
