"""Rounds over a real log and real tables, with the workers' part done in-process."""

import itertools
from pathlib import Path
from typing import Any

import pytest

from broker.catalog import requests
from broker.catalog import topics as catalog_topics
from jobs.check import check_data_directory
from jobs.rows import Failed, FileTask, Written
from tests.jobs.world import FLUSH_MS, World, here
from tests.support.batches import Record, make_batch


def some(count: int, tag: bytes = b"v") -> list[Record]:
    return [
        Record(
            None if i % 3 == 0 else b"k%d" % i,
            None if i % 5 == 0 else tag * (i % 7),
            ((b"h", b"1"), (b"h", None)) if i % 4 == 0 else (),
            1_700_000_000_000 + i,
        )
        for i in range(count)
    ]


def files_of(world: World, topic: Any) -> list[str]:
    root = world.path(topic)
    return sorted(str(p.relative_to(root)) for p in root.glob("partition=*/*"))


def test_each_record_lands_in_its_table_once(world: World) -> None:
    orders, clicks = world.topic("orders", 2), world.topic("Clicks.eu")
    compactor = world.compactor()
    for round_ in range(3):
        for codec in range(5):
            world.produce(orders, some(20), codec % 2, codec=codec)
            world.produce(clicks, some(7, b"c"), codec=codec, attributes=8)
        if round_ == 1:
            world.roll()
        world.flush(compactor)
        world.check_rows()
    report = check_data_directory(world.data_dir)
    assert report.problems == []
    assert report.counts["rows"] == 3 * 5 * 27


def test_nothing_is_due_before_its_time(world: World) -> None:
    topic, compactor = world.topic("t"), world.compactor()
    world.produce(topic, some(5))
    assert not compactor.step()
    world.clock.advance(FLUSH_MS - 1)
    assert not compactor.step()
    assert world.rows(topic) == []
    world.clock.advance(1)
    compactor.step()
    world.check_rows()


def test_bytes_make_a_topic_due_before_its_time(world: World) -> None:
    topic, compactor = world.topic("t"), world.compactor(flush_bytes=1000)
    world.produce(topic, [Record(value=b"x" * 500)])
    compactor.step()
    assert world.rows(topic) == []
    world.produce(topic, [Record(value=b"x" * 500)])
    compactor.step()
    world.check_rows()


def test_whoever_asks_need_not_wait(world: World) -> None:
    topic, other, compactor = world.topic("t"), world.topic("o"), world.compactor()
    world.produce(topic, some(5))
    world.produce(other, some(5))
    asked = world.catalog.change(lambda c: requests.ask(c, ["t"], 1))
    compactor.step()
    assert len(world.rows(topic)) == 5
    assert world.rows(other) == []
    compactor.step()
    assert world.catalog.read(lambda c: requests.is_done(c, asked))
    everything = world.catalog.change(lambda c: requests.ask(c, None, 1))
    compactor.step()
    compactor.step()
    assert world.catalog.read(lambda c: requests.is_done(c, everything))
    world.check_rows()


def test_a_new_compactor_goes_on_where_tables_end(world: World) -> None:
    topic = world.topic("t")
    for _ in range(3):
        world.produce(topic, some(10))
        world.flush(world.compactor())
        world.flush(world.compactor())
        world.check_rows()
    assert len(files_of(world, topic)) == 3


def test_a_backlog_is_worked_off_in_bounded_rounds(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobs.planner.ROUND_BYTES", 30_000)
    monkeypatch.setattr("jobs.planner.plan.__kwdefaults__", {
        "round_bytes": 30_000, "item_bytes": 10_000,
    })  # fmt: skip
    topic = world.topic("t", 3)
    for _ in range(60):
        for partition in range(3):
            world.produce(topic, [Record(value=b"x" * 1000)], partition)
    seen: list[int] = []

    def spread(tasks: list[list[FileTask]]) -> list[list[Written | Failed]]:
        seen.append(sum(t.end - t.start for task in tasks for t in task))
        return here(tasks)

    compactor = world.compactor(spread)
    world.flush(compactor)
    world.check_rows()
    assert len(seen) > 5
    assert max(seen) <= 30
    assert compactor.counts["rounds"] == len(seen)


def test_two_compactors_double_nothing(world: World) -> None:
    topic = world.topic("t")
    world.produce(topic, some(10))
    late = world.compactor()
    late.step()
    world.clock.advance(FLUSH_MS)

    def overtaken(tasks: list[list[FileTask]]) -> list[list[Written | Failed]]:
        written = here(tasks)
        world.flush(world.compactor())
        return written

    late._spread = overtaken
    late.step()
    world.check_rows()
    world.produce(topic, some(10))
    world.clock.advance(FLUSH_MS)
    world.flush(late)
    world.check_rows()
    assert check_data_directory(world.data_dir).problems == []


def test_without_the_lease_nothing_is_touched(world: World) -> None:
    topic = world.topic("t")
    world.produce(topic, some(10))
    world.flush(world.compactor(holds_lease=lambda: False))
    assert not world.path(topic).exists()


def test_a_lease_lost_meanwhile_is_noticed_before_the_commit(world: World) -> None:
    topic = world.topic("t")
    world.produce(topic, some(10))
    held = itertools.chain([True] * 100, itertools.repeat(False))
    compactor = world.compactor(holds_lease=lambda: next(held))

    def losing(tasks: list[list[FileTask]]) -> list[list[Written | Failed]]:
        for _ in range(100):
            next(held)
        return here(tasks)

    compactor._spread = losing
    world.flush(compactor)
    assert world.rows(topic) == []
    world.flush(world.compactor())
    world.check_rows()


def test_a_damaged_batch_stops_its_partition_alone(world: World) -> None:
    topic = world.topic("t", 2)
    world.produce(topic, some(10), 0)
    world.produce(topic, some(10), 1)
    world.roll()
    [info] = world.wal.segments()
    first = make_batch(some(10), 0)
    with open(info.path, "r+b") as file:
        at = file.read().index(first)
        file.seek(at + 80)
        file.write(b"\xff")
    compactor = world.compactor()
    world.flush(compactor)
    assert world.rows(topic, 0) == []
    assert len(world.rows(topic, 1)) == 10
    compactor.step()
    assert compactor.counts["stuck"] == 1
    problems = check_data_directory(world.data_dir).problems
    assert any("checksum" in problem for problem in problems)


def damage(path: Path, batch: bytearray) -> None:
    with open(path, "r+b") as file:
        at = file.read().index(batch)
        file.seek(at + 80)
        file.write(b"\xff")


@pytest.mark.parametrize("lost", [0, 1], ids=["the first batch", "a later batch"])
def test_damage_without_a_footer_stops_whom_it_concerns(
    world: World, lost: int
) -> None:
    topic = world.topic("t", 2)
    for _ in range(3):
        world.produce(topic, some(10), 0)
        world.produce(topic, some(10), 1)
    [info] = world.wal.segments()
    damage(info.path, make_batch(some(10), 10 * lost))
    compactor = world.compactor()
    world.flush(compactor)
    assert len(world.rows(topic, 0)) == 10 * lost
    assert len(world.rows(topic, 1)) == 30
    assert compactor.counts["damaged_places"] == 1
    assert compactor.counts["stuck"] == 1
    assert check_data_directory(world.data_dir).problems
    # whoever looks anew, and at segments that follow, stops at the same place
    world.roll()
    world.produce(topic, some(10), 0)
    world.flush(world.compactor())
    assert len(world.rows(topic, 0)) == 10 * lost


def test_holes_in_the_offsets_are_covered(world: World) -> None:
    topic, compactor = world.topic("t"), world.compactor()
    world.produce(topic, some(5))
    world.produce(topic, some(5), skip=3)
    world.flush(compactor)
    world.produce(topic, some(5), skip=2)
    world.flush(compactor)
    world.check_rows()
    assert check_data_directory(world.data_dir).problems == []


def test_a_topic_created_again_has_a_table_of_its_own(world: World) -> None:
    old, compactor = world.topic("t"), world.compactor()
    world.produce(old, some(5, b"old"))
    world.flush(compactor)
    world.catalog.change(
        lambda c: catalog_topics.delete(c, old.number, world.clock.now_ms())
    )
    new = world.topic("t")
    world.produce(new, some(3, b"new"))
    world.flush(compactor)
    del world.produced[old.number, 0]
    world.check_rows()


def test_the_log_may_restart_between_rounds(world: World) -> None:
    topic, compactor = world.topic("t"), world.compactor()
    for _ in range(3):
        world.produce(topic, some(10))
        world.restart_log()
        world.produce(topic, some(10))
        world.flush(compactor)
        world.check_rows()


def test_a_full_disk_is_told_and_tried_again(world: World) -> None:
    topic = world.topic("t")
    world.produce(topic, some(10))

    def full(tasks: list[list[FileTask]]) -> list[list[Written | Failed]]:
        return [[Failed(t.path, "no space left", stale=False) for t in task]
                for task in tasks]  # fmt: skip

    compactor = world.compactor(full)
    world.flush(compactor)
    assert world.rows(topic) == []
    compactor._spread = here
    world.clock.advance(60_000)
    world.flush(compactor)
    world.check_rows()
