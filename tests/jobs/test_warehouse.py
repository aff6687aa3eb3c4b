"""One compactor writes to a warehouse of its own, and only to its own."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from broker.catalog import topics
from broker.storage.directory import DataDirectory
from broker.storage.files import PosixFiles
from broker.storage.warehouse import MARK
from broker.topics.topic import Topic
from jobs.compactor import Compactor
from jobs.further import LOCK
from jobs.rows import Failed, FileTask, Written
from jobs.space import Volume, full_sentence, low_mark
from jobs.warehouse import Warehouse
from lakehouse.location import warehouse_of
from tests.jobs.world import World, here, some

MIB = 1 << 20
IN_USE = "is in use by another compactor"


class Beside(NamedTuple):
    """Two data directories that lead to one warehouse."""

    first: World
    second: World


def begin(data_dir: Path, away: Path) -> None:
    DataDirectory.claim(PosixFiles(), data_dir, "a test", away).close()


@pytest.fixture
def away(tmp_path: Path) -> Path:
    return tmp_path / "far" / "away"


@pytest.fixture
def moved(tmp_path: Path, away: Path) -> Iterator[World]:
    """A data directory whose tables lie elsewhere."""
    begin(tmp_path / "data", away)
    world = World(tmp_path / "data")
    yield world
    world.close()


@pytest.fixture
def beside(tmp_path: Path, away: Path) -> Iterator[Beside]:
    """A data directory of some records, and a copy of it that went on by itself."""
    begin(tmp_path / "data", away)
    first = World(tmp_path / "data")
    first.topic("t")
    first.close()
    shutil.copytree(tmp_path / "data", tmp_path / "copy", symlinks=True)
    found = Beside(World(tmp_path / "data"), World(tmp_path / "copy"))
    yield found
    for world in found:
        world.close()


def topic_of(world: World) -> Topic:
    [topic] = world.catalog.read(topics.load)
    return topic


def said(compactor: Compactor) -> str:
    status = compactor.status()
    return f"{status.state}: {'; '.join(status.problems)}"


def test_two_compactors_of_two_data_directories_do_not_write_to_one_warehouse(
    beside: Beside,
) -> None:
    first, second = beside
    topic = topic_of(first)
    first.produce(topic, some(5))
    second.produce(topic, some(9, b"theirs"))
    one, other = first.compactor(), second.compactor()
    first.flush(one)
    second.flush(other)
    first.check_rows()
    assert IN_USE in said(other)
    one.stop()
    second.flush(other)
    assert IN_USE not in said(other)
    assert second.rows(topic)[5:] == second.produced[topic.number, 0][5:]


def test_the_lock_goes_with_the_lease(beside: Beside) -> None:
    """So a compactor that sees that it lost the lease stands in nobody's way."""
    world, _ = beside
    leases = [True, False]
    one = world.compactor(holds_lease=lambda: leases[0])
    other = world.compactor(holds_lease=lambda: leases[1])
    one.step()
    assert not other.step()
    assert said(other) == "another compactor has the lease: "
    leases.reverse()
    other.step()
    assert IN_USE in said(other)
    one.step()
    other.step()
    assert said(other) == "running: "


def files_in(directory: Path) -> list[Path]:
    return sorted(directory.rglob("*"))


@pytest.mark.parametrize("there", ["nothing", "an empty place", "another's"])
def test_a_disk_that_was_taken_away_is_not_written_to(
    moved: World, away: Path, tmp_path: Path, there: str
) -> None:
    topic, compactor = moved.topic("t"), moved.compactor()
    moved.produce(topic, some(5))
    moved.flush(compactor)
    new = moved.topic("new")
    elsewhere = away.with_name("unmounted")
    away.rename(elsewhere)
    if there == "an empty place":
        away.mkdir()
    if there == "another's":
        begin(tmp_path / "other", away)
        (away / "t").mkdir()
    before = files_in(away)
    for one in (topic, new):
        moved.produce(one, some(5))
    moved.flush(compactor)
    assert files_in(away) == before
    refused = {"another's": "warehouse of another data directory"}
    assert refused.get(there, "is its disk mounted?") in said(compactor)
    assert compactor.status().stuck == 0
    if away.exists():
        shutil.rmtree(away)
    elsewhere.rename(away)
    moved.flush(compactor)
    moved.check_rows()
    assert said(compactor) == "running: "


def test_a_disk_that_goes_while_files_are_written_gets_no_commit(
    moved: World, away: Path
) -> None:
    topic, gone = moved.topic("t"), [away]

    def spread(tasks: list[list[FileTask]]) -> list[list[Written | Failed]]:
        done = here(tasks)
        while gone and any(tasks):
            gone.pop().rename(away.with_name("unmounted"))
            begin(away.parents[1] / "other", away)
        return done

    compactor = moved.compactor(spread)
    moved.produce(topic, some(5))
    moved.flush(compactor)
    compactor.step()
    assert not (away / "t").exists()
    assert "warehouse of another data directory" in said(compactor)


def test_tables_in_the_data_directory_need_no_lock(tmp_path: Path) -> None:
    (tmp_path / "tables").mkdir()
    one, other = (
        Warehouse(PosixFiles(), tmp_path, lambda: True, MIB) for _ in range(2)
    )
    assert one.is_ours()
    assert other.is_ours()
    assert list((tmp_path / "tables").iterdir()) == []


def test_a_lock_that_is_held_is_one_look_at_a_file(moved: World, away: Path) -> None:
    """It is asked before each table of ten thousand."""
    warehouse = Warehouse(PosixFiles(), moved.data_dir, lambda: True, MIB)
    assert warehouse.is_ours()
    assert (away / LOCK).exists()
    (away / MARK).rename(away / "not-looked-at")
    assert warehouse.is_ours()
    warehouse.close()
    assert not warehouse.is_ours()


def test_a_disk_that_is_swapped_before_it_is_locked_is_not_ours(
    moved: World, away: Path
) -> None:
    class Swapping(PosixFiles):
        def lock(self, path: Path) -> int | None:
            (away / MARK).write_text("another id")
            return super().lock(path)

    warehouse = Warehouse(Swapping(), moved.data_dir, lambda: True, MIB)
    assert not warehouse.is_ours()
    assert "warehouse of another data directory" in (warehouse.refusal or "")
    warehouse.close()


def test_a_full_disk_of_the_tables_is_named() -> None:
    mine, theirs = Volume(1, 5 * MIB, 100 * MIB), Volume(2, 5 * MIB, 100 * MIB)
    assert low_mark(theirs, mine, 4 * MIB) == 4 * MIB
    mark = low_mark(theirs, mine, 6 * MIB)
    assert mark == 5 * MIB, "a twentieth of a small disk is enough"
    assert full_sentence("/far", theirs, mark) is None
    full = theirs._replace(free=4 * MIB)
    sentence = full_sentence("/far", full, mark)
    assert sentence is not None
    assert sentence.startswith("the disk of the tables, /far, has 4.0 MiB left")
    near = full._replace(device=1)
    assert low_mark(near, mine, 6 * MIB) == 0
    assert full_sentence("/far", near, 0) is None


def test_nothing_is_written_to_a_full_disk_of_tables(moved: World) -> None:
    topic, compactor = moved.topic("t"), moved.compactor()
    moved.produce(topic, some(5))
    compactor._warehouse.full = lambda: "it is full"  # type: ignore[method-assign]
    moved.flush(compactor)
    assert moved.rows(topic) == []
    assert said(compactor) == "running: it is full"
    del compactor._warehouse.full
    moved.flush(compactor)
    moved.check_rows()
    assert said(compactor) == "running: "


def test_two_places_of_one_disk_are_no_second_disk(moved: World) -> None:
    """There a table takes what its records leave in the log."""
    warehouse = Warehouse(PosixFiles(), moved.data_dir, lambda: True, 1 << 60)
    assert warehouse.full() is None
    shutil.rmtree(warehouse_of(moved.data_dir))
    assert warehouse.full() is None
