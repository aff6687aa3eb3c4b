"""The check finds what it is there to find."""

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from broker.catalog import offsets
from broker.catalog.offsets import CommittedOffset
from jobs.check import Report, check_data_directory
from tests.jobs.world import World
from tests.support.batches import Record


@pytest.fixture
def topic(world: World) -> Any:
    topic, compactor = world.topic("t"), world.compactor()
    for _ in range(2):
        world.produce(topic, [Record(b"k", b"v" * 50)] * 10)
        world.flush(compactor)
        world.roll()
    world.produce(topic, [Record(b"k", b"v" * 50)] * 10)
    return topic


def check(world: World) -> Report:
    return check_data_directory(world.data_dir)


def problem(world: World) -> str:
    problems = check(world).problems
    assert problems
    return "; ".join(problems)


def data_files(world: World, topic: Any) -> list[Path]:
    return sorted(world.path(topic).glob("partition=0/*.parquet"))


def last_entry(world: World, topic: Any) -> Path:
    return max((world.path(topic) / "_delta_log").glob("*.json"))


def change_log(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_a_sound_directory_is_counted(world: World, topic: Any) -> None:
    report = check(world)
    assert report.ok
    assert report.counts | {"topics": 1, "tables": 1, "files": 2, "rows": 20,
                            "batches": 3, "segments": 3} == report.counts  # fmt: skip


def test_no_data_directory(tmp_path: Path) -> None:
    assert not check_data_directory(tmp_path / "nothing").ok


def test_a_flipped_byte_in_a_segment(world: World, topic: Any) -> None:
    info = world.wal.segments()[0]
    with open(info.path, "r+b") as file:
        at = file.read().index(b"v" * 50)
        file.seek(at)
        file.write(b"w")
    assert "checksum" in problem(world)


def test_a_lost_segment(world: World, topic: Any) -> None:
    world.restart_log()
    world.wal.segments()[-1].path.unlink()
    assert "lost" in problem(world)


def test_records_that_are_nowhere(world: World, topic: Any) -> None:
    # The table as it was before its last commit, and the segments let go.
    last_entry(world, topic).unlink()
    for info in world.wal.segments()[:2]:
        info.path.unlink()
    assert "neither in the table nor in a segment" in problem(world)


def test_a_missing_file(world: World, topic: Any) -> None:
    data_files(world, topic)[0].unlink()
    assert "is missing" in problem(world)


def test_a_damaged_file(world: World, topic: Any) -> None:
    path = data_files(world, topic)[0]
    content = bytearray(path.read_bytes())
    content[40:90] = bytes(50)
    path.write_bytes(content)
    assert path.name in problem(world)


def test_a_file_with_other_rows(world: World, topic: Any) -> None:
    first, second = data_files(world, topic)
    shutil.copy(first, second)
    found = problem(world)
    assert "outside its statistics" in found
    assert "twice" in found


def test_statistics_that_are_not_true(world: World, topic: Any) -> None:
    entry = last_entry(world, topic)
    change_log(entry, '\\"numRecords\\":10', '\\"numRecords\\":11')
    assert "rows, not 11" in problem(world)


def test_the_same_range_committed_twice(world: World, topic: Any) -> None:
    entry = last_entry(world, topic)
    again = entry.with_name(f"{int(entry.stem) + 1:020d}.json")
    shutil.copy(entry, again)
    assert "the table ended at 20" in problem(world)


def test_rows_at_or_above_the_end(world: World, topic: Any) -> None:
    entry = last_entry(world, topic)
    lines = [json.loads(line) for line in entry.read_text().splitlines()]
    for line in lines:
        if line.get("txn", {}).get("appId", "").endswith("/0"):
            line["txn"]["version"] = 15
    entry.write_text("\n".join(map(json.dumps, lines)))
    assert "whose end is 15" in problem(world)


def test_an_offset_committed_beyond_the_end(world: World, topic: Any) -> None:
    def commit(offset: int) -> None:
        stored = {(topic.number, 0): CommittedOffset(offset)}
        world.catalog.change(lambda c: offsets.commit(c, "g", stored))

    commit(30)
    assert check(world).ok
    commit(31)
    assert "group 'g' has committed 31 of t-0, which ends at 30" in problem(world)


def test_an_owners_rewrite_is_no_problem(world: World, topic: Any) -> None:
    import deltalake

    deltalake.DeltaTable(str(world.path(topic))).optimize.compact()
    table = deltalake.DeltaTable(str(world.path(topic)))
    assert pq.read_metadata(table.file_uris()[0].removeprefix("file://")).num_rows == 20
    report = check(world)
    assert report.problems == []
    table.delete("offset = 3")
    assert check(world).problems == []
