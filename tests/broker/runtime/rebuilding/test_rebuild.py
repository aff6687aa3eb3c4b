"""A lost catalog is made again, and everybody goes on."""

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from broker.catalog import producers, topics, transactions
from broker.catalog.catalog import Catalog
from broker.runtime.rebuilding.plan import Answers
from broker.runtime.rebuilding.rebuild import NotRebuilt, rebuild
from broker.storage.files import PosixFiles
from jobs.check import check_data_directory
from lakehouse import warehouse_names
from lakehouse.log.delta_log import entry_path
from tests.broker.runtime.rebuilding.world import lose_catalog, transactional
from tests.jobs.world import World, aside, delete, later, start_at
from tests.support.batches import Record
from tests.support.patience import wait_until
from tests.support.saying import say
from tests.support.warehouses import Further


@pytest.fixture
def world(tmp_path):
    """A topic with records in its table and behind it, one in the log alone, and one
    that is deleted."""
    world = World(tmp_path)
    world.topic("unused")
    table = world.topic("table", 3, {"retention.ms": "86400000"})
    gone, log = world.topic("gone"), world.topic("Log", 2)
    for topic in (table, gone):
        world.produce(topic, [Record(b"k", b"%d" % n) for n in range(10)])
    compactor = world.compactor()
    world.flush(compactor)
    start_at(world, table, 4)
    delete(world, gone)
    for _ in range(2):
        later(world, compactor)
    assert len(aside(world)) == 1
    world.produce(table, [Record(b"k", b"later")])
    world.produce(log, [Record(b"k", b"trickle")] * 2, partition=1)
    compactor.step()
    assert world.rows(log, 1) == []
    yield world
    world.close()


def again(world, **more):
    return rebuild(world.data_dir, PosixFiles(), world.clock, **more)


def lost(world):
    """The catalog is gone; the log's writer has stopped."""
    before = world.catalog.read(topics.load)
    world.wal.close()
    world.catalog.close()
    lose_catalog(world.data_dir)
    return before


def opened(world):
    world.catalog = Catalog.open(world.data_dir / "catalog.db")
    world.wal = world._open()
    return world.catalog.read(topics.load)


def test_topics_are_what_they_were_and_compaction_goes_on(world):
    before = lost(world)
    made = again(world)
    assert (made.plan.problems, made.plan.remarks, made.orphans) == ([], [], [])
    after = opened(world)
    assert after == [topic for topic in before if topic.name != "unused"]
    [gone] = world.catalog.read(topics.list_deleted)
    assert (gone.topic.name, gone.deleted_ms) == ("gone", world.clock.now_ms())
    table, log = after
    assert world.catalog.read(topics.load_log_starts) == {(table.number, 0): 4}
    assert made.ends[table.number, 0] == 11
    assert made.ends[log.number, 1] == 2
    assert world.catalog.change(producers.next_block)[0] >= world.clock.now_ms()
    world.flush(world.compactor())
    assert len(world.rows(table)) == 11
    assert world.rows(log, 1) == world.produced[log.number, 1]
    assert check_data_directory(world.data_dir).problems == []
    new = world.topic("new")
    assert new.number > max(topic.number for topic in before)


def test_without_the_log_the_tables_are_enough(world):
    before = lost(world)
    os.rename(world.data_dir / "wal", world.data_dir / "burnt")
    made = again(world)
    assert [one.topic for one in made.plan.living] == [
        topic for topic in before if topic.name != "unused"
    ]
    opened(world)
    assert made.ends[before[1].number, 0] == 10


def test_a_dry_run_makes_nothing(world):
    before = lost(world)
    files = sorted(path.name for path in world.data_dir.iterdir())
    made = again(world, dry_run=True)
    assert len(made.plan.living) == len(before) - 1
    left = sorted(path.name for path in world.data_dir.iterdir())
    assert set(left) - set(files) <= {"VERSION", "lock", "run"}
    again(world)
    opened(world)


def test_a_catalog_that_can_be_read_stays_unless_it_is_forced(world):
    before = world.catalog.read(topics.load)
    world.wal.close()
    world.catalog.close()
    with pytest.raises(NotRebuilt, match="of 3 topics: nothing is to be made again"):
        again(world)
    made = again(world, force=True)
    with Catalog.open(made.aside[0], read_only=True) as kept:
        assert kept.read(topics.load) == before
    opened(world)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """As by a shell that has it to itself."""
    with closing(sqlite3.connect(path)) as holder:
        holder.execute("PRAGMA locking_mode=EXCLUSIVE")
        holder.execute("BEGIN IMMEDIATE")
        holder.commit()
        holder.execute("SELECT count(*) FROM topics").fetchone()
        yield


@contextmanager
def not_to_be_opened(path: Path) -> Iterator[None]:
    """As by a user who may not; it is so for root as well."""
    beside = path.with_name(f"{path.name}-wal")
    beside.mkdir()
    yield
    beside.rmdir()


@pytest.mark.parametrize("kept", [locked, not_to_be_opened])
def test_a_catalog_that_only_we_cannot_read_is_not_called_lost(
    world, kept: Callable[..., Any], monkeypatch
):
    monkeypatch.setitem(Catalog.open.__func__.__kwdefaults__, "busy_ms", 10)
    world.wal.close()
    world.catalog.close()
    path = world.data_dir / "catalog.db"
    content = path.read_bytes()
    with kept(path), pytest.raises(NotRebuilt, match=r"may be whole.* --force"):
        again(world)
    assert path.read_bytes() == content
    assert list(world.data_dir.glob("catalog.db.*")) == []
    opened(world)


def test_a_damaged_catalog_is_kept_aside(world):
    world.wal.close()
    world.catalog.close()
    path = world.data_dir / "catalog.db"
    content = bytearray(path.read_bytes())
    content[4096 : 4096 * 4] = os.urandom(4096 * 3)
    path.write_bytes(content)
    made = again(world)
    assert made.aside[0].read_bytes() == content
    assert len(opened(world)) == 2


def test_the_cluster_keeps_its_id(world):
    cluster_id = world.catalog.cluster_id
    lost(world)
    assert again(world, dry_run=True).cluster_id is None
    run = world.data_dir / "run"
    run.mkdir(exist_ok=True)
    (run / "broker.json").write_text(json.dumps({"cluster_id": cluster_id}))
    again(world)
    opened(world)
    assert world.catalog.cluster_id == cluster_id


def test_nothing_else_may_run_meanwhile(world):
    lost(world)
    lock = PosixFiles().lock(world.data_dir / "lock")
    with pytest.raises(NotRebuilt, match="is in use by"):
        again(world)
    PosixFiles().close(lock)
    (world.data_dir / "run").mkdir(exist_ok=True)
    say(world.data_dir, state="running", pid=os.getpid())
    with pytest.raises(NotRebuilt, match="a compactor runs"):
        again(world)
    say(world.data_dir, state="stopped", pid=os.getpid())
    again(world)
    opened(world)


def test_a_compactor_that_was_killed_does_not_run(world):
    """Also while nobody has asked how it ended."""
    lost(world)
    (world.data_dir / "run").mkdir(exist_ok=True)
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        process = psutil.Process(ended.pid)
        wait_until(lambda: process.status() == psutil.STATUS_ZOMBIE)
        say(world.data_dir, state="running", pid=ended.pid)
        again(world)
    opened(world)


@pytest.mark.parametrize("pid", [-1, 0, (1 << 22) + 1])
def test_a_process_that_is_none_does_not_run(world, pid):
    lost(world)
    (world.data_dir / "run").mkdir(exist_ok=True)
    say(world.data_dir, state="running", pid=pid)
    again(world)
    opened(world)


def test_what_is_no_data_directory_is_left_alone(tmp_path, world):
    with pytest.raises(NotRebuilt, match="is not a data directory"):
        rebuild(tmp_path / "else", PosixFiles(), world.clock)
    assert not (tmp_path / "else").exists()


def test_records_without_a_table_wait_for_a_name(world):
    number = world.catalog.read(lambda c: topics.find(c, "Log")).number
    lost(world)
    os.rename(world.data_dir / "tables" / "~log", world.data_dir / "elsewhere")
    with pytest.raises(NotRebuilt, match=f"--topic {number}=NAME"):
        again(world)
    assert not (world.data_dir / "catalog.db").exists()
    again(world, answers=Answers({number: "named"}))
    named = next(topic for topic in opened(world) if topic.name == "named")
    world.flush(world.compactor())
    assert len(world.rows(named, 1)) == 2


def test_a_table_that_cannot_be_read_is_said_and_its_topic_waits_for_it(world):
    before = lost(world)
    entry = Path(entry_path(str(world.data_dir / "tables" / "table"), 1))
    whole = entry.read_bytes()
    entry.write_bytes(b"x" + whole)
    made = again(world)
    assert len(made.plan.problems) == 1
    after = opened(world)
    assert [topic.number for topic in after] == [topic.number for topic in before[1:]]
    entry.write_bytes(whole)
    world.flush(world.compactor())
    assert len(world.rows(after[0])) == 11


def test_no_topic_is_made_anew_whose_table_may_be_put_right(world):
    """Its table would be taken for an earlier topic's then, and set aside."""
    before = lost(world)
    log = world.data_dir / "tables" / "table" / "_delta_log"
    whole = {entry: entry.read_bytes() for entry in log.glob("*.json")}
    for entry in whole:
        entry.write_bytes(b"{")
    named = Answers({before[1].number: "table"})
    with pytest.raises(NotRebuilt, match="put its log right, or move that directory"):
        again(world, answers=named)
    assert not (world.data_dir / "catalog.db").exists()
    for entry, content in whole.items():
        entry.write_bytes(content)
    again(world, answers=named)
    assert opened(world)[0] == before[1]
    world.flush(world.compactor())
    assert len(world.rows(before[1])) == 11


def test_what_was_open_is_ended_by_the_next_start(world):
    table = world.catalog.read(lambda c: topics.find(c, "table"))
    transactional(world, table, 11, producer=77)
    lost(world)
    [one] = again(world).orphans
    assert (one.commits, one.metadata.partitions) == (False, {(table.number, 0)})
    opened(world)
    assert set(world.catalog.read(transactions.load)) == {one.transactional_id}
    assert world.catalog.change(producers.next_block)[0] > 77


def test_a_topic_in_a_further_warehouse_is_found_there_and_not_lost_with_its_disk(
    world, tmp_path
):
    two = Further(tmp_path, "fast", warehouse=world.data_dir / "tables")
    far = world.topic("far", 1, {warehouse_names.CONFIG: "fast"})
    world.produce(far, [Record(b"k", b"v")] * 3)
    compactor = world.compactor()
    world.flush(compactor)
    compactor.stop()
    before = lost(world)
    two.unmount("fast")
    with pytest.raises(NotRebuilt, match="the warehouse fast is not there"):
        again(world)
    two.mount("fast")
    assert not again(world).plan.problems
    assert opened(world) == [topic for topic in before if topic.name != "unused"]


def test_no_topic_is_made_anew_whose_table_has_lost_its_link(world, tmp_path):
    """Its records would be two topics' then: what the log has, and what the table."""
    Further(tmp_path, "fast", warehouse=world.data_dir / "tables")
    far = world.topic("far", 1, {warehouse_names.CONFIG: "fast"})
    compactor = world.compactor()
    for _ in range(2):
        world.produce(far, [Record(b"k", b"v")] * 3)
        world.flush(compactor)
    compactor.stop()
    before = lost(world)
    place = world.data_dir / "tables" / "far"
    text = os.readlink(place)
    place.unlink()
    named = Answers({far.number: "far"})
    with pytest.raises(NotRebuilt, match="or make the link, first"):
        again(world, answers=named)
    assert not (world.data_dir / "catalog.db").exists()
    place.symlink_to(text)
    again(world, answers=named)
    assert opened(world) == [topic for topic in before if topic.name != "unused"]
