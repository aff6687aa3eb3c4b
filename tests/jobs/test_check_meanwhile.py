"""The check tells the truth about what changes while it reads."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.catalog import offsets
from broker.catalog.offsets import CommittedOffset
from broker.storage.files import PosixFiles
from jobs import check as check_module
from jobs import check_tables
from jobs.check import check_data_directory
from jobs.compactor import Compactor
from jobs.undelete import undelete
from lakehouse.log.delta_log import entry_path
from lakehouse.tables import leave_place
from tests.jobs.world import World, delete
from tests.support.batches import Record

RECORDS = [Record(b"k", b"v")] * 10


def filled(world: World, compactor: Compactor, *names: str) -> list[Any]:
    """Topics of twenty records: all in tables of two commits, none in a segment."""
    topics = [world.topic(name) for name in names]
    for _ in range(2):
        for topic in topics:
            world.produce(topic, RECORDS)
        world.flush(compactor)
    world.release()
    return topics


def drop_topic(world: World, topic: Any) -> None:
    """Delete it, and move its table aside, as the compactor does a minute later."""
    delete(world, topic)
    leave_place(str(world.data_dir / "tables"), topic.name, topic.id.hex())


def before(
    patch: pytest.MonkeyPatch, module: Any, name: str, act: Callable[[], None]
) -> None:
    """Have ``act`` happen once, before the first call of a module's function."""
    real, acts = getattr(module, name), [act]

    def call(*args: Any, **more: Any) -> Any:
        while acts:
            acts.pop()()
        return real(*args, **more)

    patch.setattr(module, name, call)


def remade(world: World, compactor: Compactor, gone: Any) -> None:
    delete(world, gone)
    world.produce(world.topic(gone.name), RECORDS)
    world.flush(compactor)


def brought_back(world: World, gone: Any) -> None:
    """All was stopped and started again: the number of the topic is another one."""
    drop_topic(world, gone)
    undelete(world.data_dir, gone.name, PosixFiles(), world.clock)


@pytest.mark.parametrize("fate", ["deleted", "made again", "brought back"])
def test_a_topic_that_is_deleted_meanwhile_has_lost_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch, fate: str
) -> None:
    compactor = world.compactor()
    _, gone = filled(world, compactor, "stays", "gone")
    acts = {
        "deleted": lambda: drop_topic(world, gone),
        "made again": lambda: remade(world, compactor, gone),
        "brought back": lambda: brought_back(world, gone),
    }
    before(monkeypatch, check_module, "check_table", acts[fate])
    report = check_data_directory(world.data_dir)
    assert (report.problems, report.remarks) == ([], [])
    assert report.counts | {"topics": 1, "topics_deleted_meanwhile": 1, "tables": 1,
                            "partitions": 1, "rows": 20} == report.counts  # fmt: skip


READS = ("load", "differing", "read_entry", "check_file", "_check_vanished", "doubled")


@pytest.mark.parametrize("read", READS)
def test_a_table_that_leaves_with_its_topic_while_it_is_read_is_no_problem(
    world: World, monkeypatch: pytest.MonkeyPatch, read: str
) -> None:
    gone, _ = filled(world, world.compactor(), "gone", "stays")
    if read == "_check_vanished":
        next(world.path(gone).glob("partition=0/*.parquet")).unlink()
    before(monkeypatch, check_tables, read, lambda: drop_topic(world, gone))
    report = check_data_directory(world.data_dir)
    assert (report.problems, report.remarks) == ([], [])
    assert report.counts["topics_deleted_meanwhile"] == 1
    assert (report.counts["topics"], report.counts["rows"]) == (1, 20)


def test_a_loss_of_a_topic_that_stays_is_told_beside_one_that_is_deleted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone, stays, lost = filled(world, world.compactor(), "gone", "stays", "lost")
    before(monkeypatch, check_module, "check_table", lambda: drop_topic(world, gone))
    Path(entry_path(str(world.path(stays)), 2)).unlink()
    shutil.rmtree(world.path(lost))
    report = check_data_directory(world.data_dir)
    nowhere = "are neither in the table nor in a segment"
    assert report.problems == [
        f"stays-0: offsets 10 to 19 {nowhere}",
        f"lost-0: offsets 0 to 19 {nowhere}",
    ]
    assert report.counts["topics_deleted_meanwhile"] == 1


def test_a_table_that_leaves_without_its_topic_while_it_is_read_is_told_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    [topic] = filled(world, world.compactor(), "t")
    path = world.path(topic)
    before(monkeypatch, check_tables, "check_file", lambda: shutil.rmtree(path))
    report = check_data_directory(world.data_dir)
    assert report.problems == [f"t: {path} holds no Delta table"]
    assert "topics_deleted_meanwhile" not in report.counts


def test_an_offset_that_is_committed_meanwhile_is_not_held_against_an_older_end(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a consumer that works beside the check: it is behind what is durable."""
    [topic] = filled(world, world.compactor(), "t")

    def consume() -> None:
        world.produce(topic, RECORDS)
        stored = {(topic.number, 0): CommittedOffset(30)}
        world.catalog.change(lambda c: offsets.commit(c, "g", stored))

    before(monkeypatch, check_module, "check_table", consume)
    assert check_data_directory(world.data_dir).remarks == []
    assert check_data_directory(world.data_dir).counts["committed_offsets"] == 1
