"""The analyst's answers belong to his questions."""

import signal
import sys
from typing import Never

import pytest

from tests.support.spark_reader import SparkReader

LATE = """
import os, signal
first = input()
os.kill(os.getppid(), signal.SIGUSR1)
second = input()
for asked in (first, second):
    number, said = asked.split(" ", 1)
    print("a line of something else", flush=True)
    print(f'answer {number} [["{said}"]]', flush=True)
"""


class Interrupted(Exception):
    """As by a test's limit in time."""


def test_an_answer_that_comes_too_late_is_not_the_next_ones() -> None:
    def interrupt(_number: int, _frame: object) -> Never:
        raise Interrupted

    before = signal.signal(signal.SIGUSR1, interrupt)
    reader = SparkReader((sys.executable, "-c", LATE))
    try:
        with pytest.raises(Interrupted):
            reader.ask("SELECT 1")
        assert reader.ask("SELECT 2") == [["SELECT 2"]]
    finally:
        signal.signal(signal.SIGUSR1, before)
        reader.close()
