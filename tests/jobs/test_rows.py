"""A slice becomes a file, or says why not; a file that is used again is noticed."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import deltalake
import pyarrow.parquet as pq
import pytest

from jobs.planner import plan
from jobs.round import file_task
from jobs.rows import (
    Failed,
    FileTask,
    Written,
    write_file,
    write_files,
)
from lakehouse.errors import TableUnreadable
from lakehouse.files.chunks import Source
from lakehouse.files.chunks import plan as plan_chunks
from lakehouse.files.reader import TableReader
from lakehouse.schema import COMMENTS
from tests.jobs.world import World
from tests.support.batches import Record
from tests.support.placed import flat, placed


class ATable:
    """As much of `jobs.tables.Table` as naming a file needs."""

    def __init__(self, topic: Any, path: Path) -> None:
        self.topic, self.path = topic, str(path)


def task_of(world: World, topic: Any, tmp_path: Path) -> FileTask:
    from broker.storage.files import PosixFiles
    from broker.storage.store import LocalSegmentStore
    from jobs.backlog import Backlog

    backlog = Backlog(LocalSegmentStore(PosixFiles(), world.data_dir / "wal"))
    backlog.refresh(0)
    [item] = plan(backlog.pending({}, [topic.number]), 1).items
    return file_task(item, ATable(topic, tmp_path), "a-1")  # type: ignore[arg-type]


def test_the_file_is_what_it_is_described_as(world: World, tmp_path: Path) -> None:
    topic = world.topic("t")
    for _ in range(30):
        world.produce(topic, [Record(b"k", b"v" * 10)] * 1000)
    written = write_file(task_of(world, topic, tmp_path / "x"))
    full = tmp_path / "x" / written.path
    footer = pq.read_metadata(full)
    assert (written.rows, written.size) == (30_000, os.path.getsize(full))
    assert (written.first_offset, written.last_offset) == (0, 29_999)
    groups = [footer.row_group(i) for i in range(footer.num_row_groups)]
    assert all(8000 <= group.num_rows <= 12_000 for group in groups)
    for group in groups:
        columns = {
            group.column(c).path_in_schema: group.column(c)
            for c in range(group.num_columns)
        }
        assert columns["value"].compression == "ZSTD"
        for name in ("offset", "timestamp"):
            assert columns[name].statistics.has_min_max
            assert "DELTA_BINARY_PACKED" in columns[name].encodings


def test_a_flipped_bit_in_a_page_is_damage_to_who_reads_it(
    world: World, tmp_path: Path
) -> None:
    """Most would be another value and nothing else: its segment is gone by then."""
    topic = world.topic("t")
    world.produce(topic, [Record(b"k%d" % n, b"a value %d" % n) for n in range(3000)])
    written = write_file(task_of(world, topic, tmp_path / "x"))
    full = tmp_path / "x" / written.path
    group, whole = pq.read_metadata(full).row_group(0), full.read_bytes()

    def rows(data: bytes) -> int:
        full.write_bytes(data)
        reader = TableReader()
        [chunk] = plan_chunks([Source(str(full))], reader._footers)
        return int(reader.read(chunk).num_rows)

    assert rows(whole) == 3000
    for name in ("offset", "timestamp", "key", "value"):
        columns = map(group.column, range(group.num_columns))
        column = next(one for one in columns if one.path_in_schema == name)
        size = column.total_compressed_size
        start = column.dictionary_page_offset or column.data_page_offset
        for at in range(start + size * 3 // 4, start + size, max(1, size // 30)):
            flipped = bytearray(whole)
            flipped[at] ^= 4
            with pytest.raises(TableUnreadable):
                rows(bytes(flipped))


def test_the_broker_reads_it_without_arrow(world: World, tmp_path: Path) -> None:
    topic = world.topic("t")
    world.produce(topic, [Record(b"k%d" % n, b"a value %d" % n) for n in range(3000)])
    written = write_file(task_of(world, topic, tmp_path / "x"))
    groups = placed(tmp_path / "x" / written.path)
    assert groups is not None
    assert [row[3:] for row in flat(groups)] == [
        (b"k%d" % n, b"a value %d" % n) for n in range(3000)
    ]


def test_a_segment_that_was_used_again_is_stale_not_read(
    world: World, tmp_path: Path
) -> None:
    topic = world.topic("t")
    world.produce(topic, [Record(b"k", b"v")])
    task = task_of(world, topic, tmp_path / "x")
    one = task.slices[0]._replace(sequence=task.slices[0].sequence + 1)
    [failed] = write_files([task._replace(slices=[one])])
    assert isinstance(failed, Failed)
    assert failed.stale
    moved = task.slices[0]._replace(store=str(tmp_path / "gone"))
    [failed] = write_files([task._replace(slices=[moved])])
    assert isinstance(failed, Failed)
    assert failed.stale
    assert not list((tmp_path / "x").rglob("*.parquet"))


def test_one_that_fails_does_not_fail_the_others(world: World, tmp_path: Path) -> None:
    topic = world.topic("t")
    world.produce(topic, [Record(b"k", b"v")])
    good = task_of(world, topic, tmp_path / "x")
    (tmp_path / "file").write_text("in the way")
    done = write_files([good._replace(root=str(tmp_path / "file")), good])
    assert [type(result) for result in done] == [Failed, Written]


def test_no_rows_make_no_file(world: World, tmp_path: Path) -> None:
    topic = world.topic("t")
    world.produce(topic, [Record(b"k", b"v")])
    task = task_of(world, topic, tmp_path / "x")._replace(start=100, end=200)
    assert write_file(task).rows == 0
    assert not (tmp_path / "x").exists()


PROGRAM = """
import os
from jobs.priority import CAUTIOUS_NICENESS, may_restore
from jobs.rows import FileTask, work
def niceness():
    return os.getpriority(os.PRIO_PROCESS, 0)
before = niceness()
assert work([]) == []
assert niceness() == before
wanted = min(before + 2, 19)
[none] = work([FileTask("root", "path", "t", 0, 0, 1, [], wanted)])
assert (none.path, none.rows) == ("path", 0)
is_allowed = may_restore() or wanted <= CAUTIOUS_NICENESS
assert niceness() == (wanted if is_allowed else max(before, CAUTIOUS_NICENESS))
"""


def test_a_worker_takes_the_niceness_of_its_first_file() -> None:
    here = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, cwd=here)


def test_a_record_without_a_timestamp_has_that_which_its_column_says(
    world: World,
) -> None:
    topic, compactor = world.topic("t"), world.compactor()
    world.produce(topic, [Record(b"k", b"v", (), -1)])
    world.flush(compactor)
    [time] = deltalake.DeltaTable(str(world.path(topic))).to_pyarrow_table()[
        "timestamp"
    ]
    said = (
        f"{time.as_py():%Y-%m-%d %H:%M:%S}.{time.as_py().microsecond // 1000:03d} UTC"
    )
    assert said in COMMENTS["timestamp"]
