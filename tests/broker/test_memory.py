"""The compiler's pages go, and what it made and what it may make still works."""

import mmap
import os
import random
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from broker.memory import HEAPS, KEPT_BYTES, _clean_mappings
from lakehouse.log.commit import commit_files
from tests.support.tables import TOPIC_ID, Writer, rows, write_file

PROGRAM = """
import numpy
import psutil
from numba import njit
from broker.memory import give_back_compiler
from broker.records import kernels

before = psutil.Process().memory_info().rss
assert give_back_compiler() > 0
after = psutil.Process().memory_info().rss
assert after < before - (20 << 20), (before, after)
raw = numpy.frombuffer(b"\\xff", numpy.uint8)
assert not kernels.is_utf8(numpy.uint64(raw.ctypes.data), 0, 1)
assert njit(lambda x: x + 1)(1) == 2  # compiles anew, out of pages that come back
print("well")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_memory_is_given_back_and_everything_goes_on() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True
    )
    assert done.stdout.strip() == "well", done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.parametrize(
    "name", [b"d\xff", "a\u2028b".encode(), b"a\x0cb", b"a\nb", b" :"]
)
def test_a_mapped_file_of_any_name_is_no_trouble(name: bytes, tmp_path: Path) -> None:
    """As the log's segments, in a data directory that is called so."""
    directory = bytes(tmp_path) + b"/" + name
    os.mkdir(directory)
    with open(directory + b"/segment", "wb+") as file:
        file.write(b"x" * 4096)
        file.flush()
        with mmap.mmap(file.fileno(), 4096):
            assert _clean_mappings(b"libc.so")


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


READS_PROGRAM = """
import asyncio, sys
from pathlib import Path
from broker.memory import choose_allocators, give_back_free, limit_heaps

choose_allocators()
assert limit_heaps()
import pyarrow
assert pyarrow.default_memory_pool().backend_name == "system"

from broker.lake.lake import Lake
from broker.topics.topic import Topic

def anonymous_bytes():
    for line in open("/proc/self/smaps_rollup"):
        if line.startswith("Anonymous:"):
            return int(line.split()[1]) << 10

async def read(lake, first, end):
    most, offset = 0, first
    while offset < end:
        offset = (await lake.read(7, 0, offset, 1 << 20)).next_offset
        most = max(most, anonymous_bytes())
    return most

async def main():
    warehouse, topic_id, end = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    loop = asyncio.get_running_loop()
    lake = Lake(
        warehouse, call_soon=loop.call_soon_threadsafe, cold_cache_bytes=16 << 20
    )
    lake.start([Topic(7, bytes.fromhex(topic_id), "orders", 2)])
    assert lake.table_end(7, 0) == end
    await read(lake, 0, end // 10)
    before = anonymous_bytes()
    most = max([await read(lake, 0, end) for _ in range(2)])
    await loop.run_in_executor(None, lake.rest)
    give_back_free()
    print(most - before, anonymous_bytes() - before)
    lake.close()

asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs glibc and /proc")
def test_cold_reads_of_ever_more_files_take_no_more_memory(tmp_path: Path) -> None:
    """480 MB are rebuilt. Each heap keeps what is free; nothing when nobody reads."""
    files, rows_each, chance = 24, 5_000, random.Random(1)
    writer, new = Writer(str(tmp_path)), []
    for first in range(0, files * rows_each, rows_each):
        table = rows(0, range(first, first + rows_each))
        values = pa.array([chance.randbytes(1_000) for _ in range(rows_each)])
        place = table.schema.get_field_index("value")
        table = table.set_column(place, "value", values)
        new.append(write_file(writer.path, f"{first:09}", table, rows_each))
    end = files * rows_each
    commit_files(writer.path, TOPIC_ID, 1, {0: (0, end)}, new)
    done = subprocess.run(
        [sys.executable, "-c", READS_PROGRAM, str(tmp_path), TOPIC_ID, str(end)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    grown, left = map(int, done.stdout.split())
    assert grown < HEAPS * KEPT_BYTES, done
    assert left < 16 << 20, done
