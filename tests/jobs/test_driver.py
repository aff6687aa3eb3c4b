"""The compactor's loop: when it pauses, what it survives, and how it ends."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobs.driver import PAUSE_S, POLL_S, _loop, with_slot_for_merges, worker_error


class Stop:
    """An event that notes each wait, and is set by the last of so many."""

    def __init__(self, waits: int) -> None:
        self.left, self.waited_s = waits, list[float]()

    def is_set(self) -> bool:
        return not self.left

    def wait(self, seconds: float) -> None:
        self.waited_s.append(seconds)
        self.left -= 1


class ADriver:
    """Steps as it is told: True, False, or an error to raise."""

    passing_troubles = (OSError,)

    def __init__(self, *steps: bool | Exception, spark: bool = True) -> None:
        self.compactor = self
        self.steps, self.spark, self.failed = list(steps), spark, list[str]()

    def step(self) -> bool:
        found = self.steps.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    def round_failed(self, why: str) -> None:
        self.failed.append(why)

    def spark_lives(self) -> bool:
        return self.spark


def loop(driver: ADriver, waits: int) -> tuple[int, list[float]]:
    run: Callable[..., int] = _loop
    stop = Stop(waits)
    return run(driver, stop), stop.waited_s


def test_it_pauses_only_when_there_is_nothing_to_do_at_once() -> None:
    driver = ADriver(True, True, False, True, False)
    assert loop(driver, waits=2) == (0, [POLL_S, POLL_S])
    assert driver.steps == []
    assert driver.failed == []


def test_a_trouble_that_passes_is_told_and_tried_again_after_a_pause() -> None:
    driver = ADriver(OSError("the disk is full\nreally"), False)
    assert loop(driver, waits=2) == (0, [PAUSE_S, POLL_S])
    assert driver.failed == ["OSError: the disk is full"]


def test_without_spark_it_ends_at_once() -> None:
    driver = ADriver(OSError("no answer"), spark=False)
    assert loop(driver, waits=9) == (1, [])
    assert driver.failed == ["OSError: no answer"]


def test_a_fault_of_ours_is_not_passed_over() -> None:
    with pytest.raises(ZeroDivisionError):
        loop(ADriver(ZeroDivisionError()), waits=9)


PROGRAM = """
import os, signal, threading
from jobs.driver import _stop_on_signals
stop = threading.Event()
_stop_on_signals(stop)
print(stop.is_set())
os.kill(os.getpid(), signal.SIG{first})
stop.wait()
print("asked", flush=True)
os.kill(os.getpid(), signal.SIG{second})
signal.pause()
"""


@pytest.mark.parametrize(
    ("first", "second", "code"), [("TERM", "INT", 130), ("INT", "TERM", 143)]
)
def test_the_first_signal_asks_and_the_second_ends_it(
    first: str, second: str, code: int
) -> None:
    program: Any = PROGRAM.format(first=first, second=second)
    done = subprocess.run(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert done.stdout.split() == ["False", "asked"]
    assert done.returncode == code


def test_a_merge_has_a_slot_beside_those_of_the_rounds() -> None:
    assert with_slot_for_merges("local[2]") == ("local[3]", 2)
    cores = os.cpu_count() or 1
    assert with_slot_for_merges("local[*]") == (f"local[{cores + 1}]", cores)
    for theirs in ("spark://there:7077", "local-cluster[2,1,1024]", "local"):
        assert with_slot_for_merges(theirs) == (theirs, 0)


def test_of_what_spark_says_of_its_workers_the_cause_is_told() -> None:
    spark = "An error occurred while calling z:PythonRDD.\n: SparkException: Job"
    start = f"{spark} aborted (driver): java.io.IOException: "
    missing = 'Cannot run program "/p": error=2, No such file or directory'
    assert worker_error(f"{start}{missing}\n\tat java.base") == missing
    bare = "ModuleNotFoundError: No module named 'jobs'"
    found = f"  /p: Error while finding module specification for 'jobs.daemon' ({bare})"
    assert worker_error(f"{spark}\nError from python worker:\n{found}\n") == bare
    assert worker_error("no answer\nreally") == "no answer"
    assert worker_error("") == ""
