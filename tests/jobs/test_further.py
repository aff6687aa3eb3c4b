"""A compactor and tables in further warehouses: each for itself, none unseen."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.catalog import topics
from broker.storage.directory import DataDirectory
from broker.storage.files import PosixFiles
from jobs import further as module
from jobs import maintain
from jobs.check import check_data_directory
from jobs.compactor import Compactor
from jobs.extent import Extents
from jobs.further import LOCK, FurtherWarehouses
from jobs.rows import Failed, FileTask, Written
from jobs.space import Volume
from lakehouse import further, warehouse_names
from lakehouse.log.delta_log import load
from tests.jobs.world import (
    DELAY,
    WEEK,
    MergesHere,
    World,
    delete,
    here,
    later,
    some,
    start_at,
)
from tests.support.warehouses import AWAY, mount, unmount

FAST = {warehouse_names.CONFIG: "fast"}
MIB = 1 << 20


def begin(data: Path, **places: Path) -> None:
    DataDirectory.claim(PosixFiles(), data, "a test", None, places).close()


@pytest.fixture
def fast(tmp_path: Path) -> Path:
    return tmp_path / "fast"


@pytest.fixture
def world(tmp_path: Path, fast: Path) -> Iterator[World]:
    begin(tmp_path / "data", fast=fast, slow=tmp_path / "slow")
    made = World(tmp_path / "data")
    yield made
    made.close()


def said(compactor: Compactor) -> str:
    status = compactor.status()
    return f"{status.state}: {'; '.join(status.problems)}"


def files_in(directory: Path) -> list[str]:
    """Names but for the marks and locks."""
    found = (str(one.relative_to(directory)) for one in directory.rglob("*"))
    return sorted(name for name in found if not name.startswith(further.MARK))


def test_a_table_lies_in_its_warehouse_and_is_found_from_everywhere(
    world: World, fast: Path
) -> None:
    topic, plain = world.topic("t", configs=FAST), world.topic("plain")
    compactor = world.compactor(merges=MergesHere())
    for one in (topic, plain):
        world.produce(one, some(5))
        world.flush(compactor)
        world.produce(one, some(5))
    world.flush(compactor)
    world.check_rows()
    assert said(compactor) == "running: "
    assert files_in(world.data_dir / "tables" / "t") == files_in(fast / "t")
    assert (world.data_dir / "tables" / "t").is_symlink()
    assert not (world.data_dir / "tables" / "plain").is_symlink()
    extents = Extents(world.data_dir)
    [found] = extents.of(["t"])
    extents.close()
    assert (found.pending(), found.problem) == (0, None)
    report = check_data_directory(world.data_dir)
    assert (report.problems, report.counts["tables"]) == ([], 2)


def test_retention_and_orphans_go_in_a_further_warehouse_too(
    world: World, fast: Path
) -> None:
    topic = world.topic("t", configs=FAST)
    compactor = world.compactor()
    world.produce(topic, some(5))
    world.flush(compactor)
    [old] = (fast / "t").glob("partition=0/*.parquet")
    orphan = old.with_name(f"{0:020d}-{5:020d}-dead-1.parquet")
    shutil.copy(old, orphan)
    now_s = world.clock.now_ms() / 1000
    os.utime(orphan, (now_s, now_s))
    world.produce(topic, some(5))
    world.flush(compactor)
    start_at(world, topic, 5)
    compactor._maintenance.suspect([topic.number])
    for _ in range(3):
        later(world, compactor)
    assert not orphan.exists()
    assert len(world.rows(topic)) == 5
    later(world, compactor, WEEK)
    later(world, compactor, WEEK)
    left = [one.name for one in (fast / "t").glob("partition=0/*.parquet")]
    assert len(left) == 1
    assert old.name not in left


def test_a_deleted_topics_table_waits_in_its_warehouse_and_goes_there(
    world: World, fast: Path
) -> None:
    topic = world.topic("t", configs=FAST)
    compactor = world.compactor()
    world.produce(topic, some(5))
    world.flush(compactor)
    delete(world, topic)
    later(world, compactor)
    assert [one.name for one in fast.glob(".deleted-*")] == [
        f".deleted-{topic.id.hex()}-t"
    ]
    assert not (world.data_dir / "tables" / "t").is_symlink()
    unmount(fast)
    later(world, compactor, WEEK)
    assert world.catalog.read(topics.list_deleted), "it cannot have been deleted"
    mount(fast)
    later(world, compactor, DELAY)
    assert world.catalog.read(topics.list_deleted) == []
    assert files_in(fast) == []


@pytest.mark.parametrize("there", ["nothing", "an empty place", "another"])
def test_a_disk_that_is_away_stops_its_topics_and_no_others(
    world: World, fast: Path, there: str
) -> None:
    topic, plain = world.topic("t", configs=FAST), world.topic("plain")
    slow = world.topic("slow", configs={warehouse_names.CONFIG: "slow"})
    compactor = world.compactor()
    world.produce(topic, some(5))
    world.flush(compactor)
    new = world.topic("new", configs=FAST)
    unmount(fast, there)
    every = (topic, plain, slow, new)
    for one in every:
        world.produce(one, some(5))
    for _ in range(3):
        world.flush(compactor)
    assert world.rows(plain) == world.produced[plain.number, 0]
    assert world.rows(slow) == world.produced[slow.number, 0]
    assert files_in(fast) == []
    status = compactor.status()
    assert status.state == "running"
    why = "the right disk" if there == "another" else "Is its disk"
    troubled = {one.topic: one.why for one in status.tables if one.why}
    assert troubled.keys() == {"t", "new"}
    assert all(f"{why} mounted?" in one for one in troubled.values())
    [problem] = check_data_directory(world.data_dir).problems
    assert problem.startswith("t: ")
    assert f"{why} mounted?" in problem
    mount(fast)
    world.clock.advance(60_000)
    for _ in range(3):
        world.flush(compactor)
    world.check_rows()
    assert said(compactor) == "running: "


def test_a_disk_that_is_swapped_while_files_are_written_gets_no_commit(
    world: World, fast: Path
) -> None:
    """Not even a copy of it, whose table would take one."""
    topic, plain = world.topic("t", configs=FAST), world.topic("plain")
    swaps = list[int]()

    def spread(tasks: list[list[FileTask]]) -> list[list[Written | Failed]]:
        done = here(tasks)
        if swaps and any(tasks):
            swaps.pop()
            unmount(fast, "another")
            shutil.copytree(fast.with_name(f"{fast.name}{AWAY}") / "t", fast / "t")
        return done

    compactor = world.compactor(spread)
    world.produce(topic, some(5))
    world.flush(compactor)
    swaps.append(1)
    for one in (topic, plain):
        world.produce(one, some(5))
    world.flush(compactor)
    original = fast.with_name(f"{fast.name}{AWAY}") / "t"
    assert load(str(fast / "t")).version == load(str(original)).version
    assert world.rows(plain) == world.produced[plain.number, 0]
    shutil.rmtree(fast / "t")
    mount(fast)
    world.clock.advance(60_000)
    for _ in range(3):
        world.flush(compactor)
    world.check_rows()


OLDER = f"{0:020d}-{3:020d}-dead-1.parquet"


def swap(disk: Path) -> list[str]:
    """Have a copy in its place, of which nobody said that it is ours: a backup."""
    unmount(disk, "another")
    for one in disk.with_name(f"{disk.name}{AWAY}").glob("*/"):
        shutil.copytree(one, disk / one.name)
    return files_in(disk)


def test_a_disk_that_is_swapped_gets_no_checkpoint(world: World, fast: Path) -> None:
    topic, compactor = world.topic("t", configs=FAST), world.compactor()
    world.produce(topic, some(5))
    world.flush(compactor)
    table = compactor._tables.followed(topic.number)
    assert table is not None
    compactor._checkpoints._due[topic.number] = table.snapshot.version
    before = swap(fast)
    compactor.step()
    assert files_in(fast) == before


def test_a_disk_that_is_swapped_amid_a_pass_over_tables_is_not_gone_on_with(
    world: World, fast: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that a merge replaced here is still of the table that was copied."""
    compactor, found = world.compactor(), list[list[str]]()
    for name in "tu":
        world.produce(world.topic(name, configs=FAST), some(5))
    world.flush(compactor)
    really, old_s = maintain.maintain_table, world.clock.now_ms() / 1000

    def swapped_then(*args: Any, **more: Any) -> dict[str, int]:
        done = really(*args, **more)
        if not found:
            swap(fast)
            for name in "tu":
                older = fast / name / "partition=0" / OLDER
                older.touch()
                os.utime(older, (old_s, old_s))
            found.append(files_in(fast))
        return done

    monkeypatch.setattr(maintain, "maintain_table", swapped_then)
    later(world, compactor)
    assert found == [files_in(fast)]


def test_a_link_that_was_lost_while_its_disk_was_away_is_made_when_that_is_back(
    world: World, fast: Path
) -> None:
    """As by an operator who saw that it led to nothing. Until then nobody is told to
    give up what lies there."""
    topic, before = world.topic("t", configs=FAST), world.compactor()
    world.produce(topic, some(5))
    world.flush(before)
    world.release()
    before.stop()
    unmount(fast)
    (world.data_dir / "tables" / "t").unlink()
    compactor = world.compactor()
    later(world, compactor, 1_000)
    world.produce(topic, some(5))
    world.flush(compactor)
    assert "Is its disk mounted?" in said(compactor)
    assert "DeleteRecords" not in said(compactor)
    mount(fast)
    later(world, compactor, 60_000)
    world.flush(compactor)
    world.check_rows()
    assert said(compactor) == "running: "


def test_a_topic_of_the_name_of_one_in_a_warehouse_that_was_given_up_gets_its_table(
    world: World, fast: Path
) -> None:
    """As the guide says it of a disk that was lost: its topics are deleted, and then
    the link to it. They are made again elsewhere."""
    lost, compactor = world.topic("t", configs=FAST), world.compactor()
    world.produce(lost, some(5))
    world.flush(compactor)
    unmount(fast)
    delete(world, lost)
    Path(further.link_of(str(world.data_dir / "tables"), "fast")).unlink()
    topic = world.topic("t")
    world.produce(topic, some(5))
    world.flush(compactor)
    for _ in range(3):
        later(world, compactor)
    world.flush(compactor)
    assert world.rows(topic) == world.produced[topic.number, 0]
    assert said(compactor) == "running: "


def test_nothing_is_committed_where_the_lock_cannot_be_had(
    world: World, fast: Path
) -> None:
    topic, plain = world.topic("t", configs=FAST), world.topic("plain")
    (fast / LOCK).mkdir()
    compactor = world.compactor()
    for one in (topic, plain):
        world.produce(one, some(5))
    world.flush(compactor)
    assert world.rows(topic) == []
    assert world.rows(plain) == world.produced[plain.number, 0]
    assert "the warehouse fast cannot be used: " in said(compactor)
    (fast / LOCK).rmdir()
    world.flush(compactor)
    world.check_rows()
    assert said(compactor) == "running: "


def test_its_owner_is_waited_for(world: World, fast: Path) -> None:
    topic, compactor = world.topic("t", configs=FAST), world.compactor()
    world.produce(topic, some(5))
    world.flush(compactor)
    compactor.step()  # it is watched from now on
    (fast / "t" / "partition=0" / "part-0-theirs.snappy.parquet").touch()
    world.produce(topic, some(5))
    world.flush(compactor)
    assert len(world.rows(topic)) == 5
    later(world, compactor, 30_000)
    world.flush(compactor)
    world.check_rows()


def test_two_compactors_of_two_data_directories_do_not_write_to_one(
    world: World, tmp_path: Path
) -> None:
    topic = world.topic("t", configs=FAST)
    world.wal.close()
    shutil.copytree(tmp_path / "data", tmp_path / "copy", symlinks=True)
    first, second = World(tmp_path / "data"), World(tmp_path / "copy")
    world.wal = first.wal
    first.produce(topic, some(5))
    second.produce(topic, some(9, b"theirs"))
    one, other = first.compactor(), second.compactor()
    first.flush(one)
    second.flush(other)
    first.check_rows()
    assert "the warehouse fast" in said(other)
    assert "is in use by another compactor" in said(other)
    one.stop()
    second.flush(other)
    assert "in use" not in said(other)
    other.stop()
    first.catalog.close()
    second.close()


def test_a_full_disk_stops_what_is_added_to_it_alone(world: World) -> None:
    topic, plain = world.topic("t", configs=FAST), world.topic("plain")
    compactor = world.compactor()
    compactor._further.look = lambda log: None  # type: ignore[method-assign]
    compactor._further._full = {"fast": "it is full"}
    for one in (topic, plain):
        world.produce(one, some(5))
    world.flush(compactor)
    assert world.rows(topic) == []
    assert world.rows(plain) == world.produced[plain.number, 0]
    assert said(compactor) == "running: it is full"
    compactor._further._full = {}
    world.flush(compactor)
    world.check_rows()


def test_how_full_each_is_is_seen_by_its_own_disk(
    world: World, fast: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def volume(link: str) -> Volume:
        return Volume(2, (4 if link.endswith("fast") else 50) * MIB, 100 * MIB)

    monkeypatch.setattr(module, "volume", volume)
    known = {
        one.number: one
        for one in (world.topic("t", configs=FAST), world.topic("plain"))
    }
    found = FurtherWarehouses(PosixFiles(), str(world.data_dir / "tables"), 6 * MIB)
    found.take()
    found.look(Volume(1, 4 * MIB, 100 * MIB))
    [problem] = found.problems
    assert problem.startswith(f"the disk of the tables, {fast}, has 4.0 MiB left")
    assert [one.name for one in found.with_space(known).values()] == ["plain"]
    found.look(Volume(2, 4 * MIB, 100 * MIB))
    assert found.problems == [], "on the log's own disk nothing is kept free"
    assert found.with_space(known) is known
    found.close()


def test_a_lock_that_cannot_be_had_is_told_and_nothing_is_committed_there(
    world: World,
) -> None:
    class Failing(PosixFiles):
        def lock(self, path: Path) -> int | None:
            raise OSError(30, "Read-only file system")

    found = FurtherWarehouses(Failing(), str(world.data_dir / "tables"), MIB)
    assert found.take() is None
    assert len(found.problems) == 2
    assert "Read-only" in found.problems[0]
    assert not found.takes(world.topic("t", configs=FAST))
    assert found.takes(world.topic("plain"))
    assert found.takes(None)


def test_a_disk_that_comes_back_is_locked_again(world: World, fast: Path) -> None:
    topic = world.topic("t", configs=FAST)
    found = FurtherWarehouses(PosixFiles(), str(world.data_dir / "tables"), MIB)
    assert found.take() is None
    assert found.takes(topic)
    assert (fast / LOCK).exists()
    unmount(fast)
    assert not found.takes(topic)
    assert found.take() is None
    assert not found.takes(topic)
    assert not (fast / LOCK).exists()
    mount(fast)
    assert found.take() is None
    assert found.takes(topic)
    other = FurtherWarehouses(PosixFiles(), str(world.data_dir / "tables"), MIB)
    assert "in use" in (other.take() or "")
    found.close()
    assert other.take() is None
    other.close()


def test_a_table_that_was_moved_back_takes_commits_without_its_disk(
    world: World, fast: Path
) -> None:
    topic = world.topic("t", configs=FAST)
    compactor = world.compactor()
    world.produce(topic, some(5))
    world.flush(compactor)
    place = world.data_dir / "tables" / "t"
    place.unlink()
    (fast / "t").rename(place)
    unmount(fast)
    world.produce(topic, some(5))
    world.clock.advance(60_000)
    for _ in range(2):
        world.flush(compactor)
    world.check_rows()
    mount(fast)


def test_a_link_that_was_lost_is_told_and_made_again_before_records_come(
    world: World, fast: Path
) -> None:
    """Else all that is in the table alone is told as lost, and served to nobody."""
    topic, place = world.topic("t", configs=FAST), world.data_dir / "tables" / "t"
    compactor = world.compactor()
    world.produce(topic, some(5))
    world.flush(compactor)
    world.produce(topic, some(5))
    world.flush(compactor)
    place.unlink()
    problems = check_data_directory(world.data_dir).problems
    lost = world.data_dir / "tables" / further.DIRECTORY / "fast" / "t"
    assert any(f"no link leads to its table {lost}" in one for one in problems)
    later(world, compactor)
    assert place.is_symlink()
    world.check_rows()
    assert check_data_directory(world.data_dir).problems == []
    place.unlink()
    delete(world, topic)
    for _ in range(3):
        later(world, compactor, WEEK)
    assert world.catalog.read(topics.list_deleted) == []
    assert files_in(fast) == []
