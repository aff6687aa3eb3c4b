"""The compiler's pages go, and what it made and what it may make still works."""

import subprocess
import sys

import pytest

PROGRAM = """
import psutil
from numba import njit
from broker.memory import give_back_compiler
from broker.records import kernels

before = psutil.Process().memory_info().rss
assert give_back_compiler() > 0
after = psutil.Process().memory_info().rss
assert after < before - (20 << 20), (before, after)
assert not kernels.is_utf8(b"\\xff", 0, 1)
assert njit(lambda x: x + 1)(1) == 2  # compiles anew, out of pages that come back
print("well")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_memory_is_given_back_and_everything_goes_on() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True
    )
    assert done.stdout.strip() == "well", done.stderr


def test_without_a_compiler_there_is_nothing_to_give() -> None:
    program = "from broker.memory import give_back_compiler as g; print(g())"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True
    )
    assert done.stdout.strip() == "0", done.stderr


def test_going_over_between_batches_and_columns_loads_no_pandas() -> None:
    program = """
import sys
from broker.records.columns import to_columns
from broker.records.rebatch import from_columns
from tests.support.batches import Record, make_batch
records = [Record(b"k", b"v", [(b"h", b"x")]), Record(None, None)]
assert len(from_columns(to_columns([make_batch(records, 5)]))) == 1
print("pandas" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True
    )
    assert done.stdout.strip() == "False", done.stderr


HEAPS_PROGRAM = """
import threading
from broker.memory import give_back_free, limit_heaps

def anonymous_bytes():
    for line in open("/proc/self/status"):
        if line.startswith("RssAnon"):
            return int(line.split()[1]) << 10

def fill():
    kept = [bytearray(b"x" * 20_000) for _ in range(1_000)]
    pinned.append(kept[-1])  # what is above a free block stays
    done.wait()

assert limit_heaps()
pinned, done = [], threading.Barrier(5)
threads = [threading.Thread(target=fill) for _ in range(4)]
[thread.start() for thread in threads]
done.wait()
[thread.join() for thread in threads]
before = anonymous_bytes()
give_back_free()
print(before - anonymous_bytes())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs glibc")
def test_what_threads_have_freed_is_given_back() -> None:
    done = subprocess.run(
        [sys.executable, "-c", HEAPS_PROGRAM], capture_output=True, text=True
    )
    assert int(done.stdout) > 40 << 20, done
