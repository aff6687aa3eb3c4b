"""Rounds over a real log and real tables, with the workers' part done in-process."""

import itertools
from typing import Any

import pytest

from broker.catalog import requests
from broker.catalog import topics as catalog_topics
from broker.storage.layout import HEADER_BLOCK_BYTES, read_identity
from jobs.check import check_data_directory
from jobs.rows import Failed, FileTask, Written
from tests.jobs.world import FLUSH_MS, World, damage, here, some
from tests.support.batches import Record, make_batch


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


def test_a_wall_clock_that_is_set_back_holds_nothing_up(world: World) -> None:
    topic, compactor = world.topic("t"), world.compactor()
    world.produce(topic, some(5))
    compactor.step()
    world.clock.wall_ms -= 3_600_000
    world.clock.advance(FLUSH_MS)
    compactor.step()
    world.check_rows()
    world.clock.wall_ms -= 3_600_000
    world.catalog.change(
        lambda c: catalog_topics.set_log_start(c, {(topic.number, 0): 5})
    )
    world.clock.advance(3_000_000)
    compactor.step()
    assert world.rows(topic) == []  # retention is looked at


def test_a_wall_clock_that_is_set_back_prolongs_no_pause(world: World) -> None:
    topic, broken = world.topic("t"), [True]

    def spread(tasks: list[list[FileTask]]) -> list[list[Written | Failed]]:
        if broken and any(tasks):
            return [
                [Failed(one.path, "it is", stale=False) for one in t] for t in tasks
            ]
        return here(tasks)

    compactor = world.compactor(spread)
    world.produce(topic, some(5))
    world.flush(compactor)
    compactor.step()
    since_ms = compactor.status().tables[0].since_ms
    assert since_ms == world.clock.now_ms()
    broken.clear()
    world.clock.wall_ms -= 3_600_000
    world.clock.advance(60_000)
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
    world.catalog.change(lambda c: requests.ask(c, ["t"], 1))
    compactor.step()
    assert len(world.rows(topic)) == 5
    assert world.rows(other) == []
    compactor.step()
    assert world.catalog.read(requests.pending) == []
    world.catalog.change(lambda c: requests.ask(c, None, 1))
    compactor.step()
    compactor.step()
    assert world.catalog.read(requests.pending) == []
    world.check_rows()


def test_records_that_kill_their_worker_stop_their_partition_alone(
    world: World,
) -> None:
    topic, other = world.topic("t", 2), world.topic("other")
    for key in ((topic, 0), (topic, 1), (other, 0)):
        world.produce(key[0], some(10), key[1])

    def deadly(tasks: list[list[FileTask]]) -> list[list[Written | Failed]]:
        for file in (file for task in tasks for file in task):
            if (file.topic, file.partition) == ("t", 1):
                raise RuntimeError("the worker was killed")
        return here(tasks)

    compactor = world.compactor(deadly)
    world.flush(compactor)
    compactor.step()
    assert (len(world.rows(topic, 0)), len(world.rows(other))) == (10, 10)
    assert world.rows(topic, 1) == []
    status = compactor.status()
    assert status.stuck == 1
    assert status.problems == (
        "t-1 cannot be compacted: its records cannot be written by a worker: "
        "RuntimeError: the worker was killed",
    )
    assert status.tables[0].stuck
    compactor._spread = here
    world.clock.advance(60_000)
    world.flush(compactor)
    world.check_rows()
    compactor.step()
    assert compactor.status().stuck == 0


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
    monkeypatch.setattr("jobs.pace.FULL_ROUND_BYTES", 30_000)
    monkeypatch.setattr("jobs.pace.WORKER_BYTES", 1)
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
    assert compactor.counters.rounds == len(seen)


def test_a_file_that_lacks_a_record_is_not_committed(world: World) -> None:
    topic = world.topic("t", 2)
    for partition in range(2):
        world.produce(topic, some(10), partition)

    def forgetful(tasks: list[list[FileTask]]) -> list[list[Written | Failed]]:
        return [
            [
                one._replace(rows=9)
                if isinstance(one, Written) and "partition=0" in one.path
                else one
                for one in done
            ]
            for done in here(tasks)
        ]

    compactor = world.compactor(forgetful)
    world.flush(compactor)
    assert (world.rows(topic, 0), len(world.rows(topic, 1))) == ([], 10)
    compactor.step()
    assert compactor.status().stuck == 1
    world.clock.advance(60_000)
    compactor._spread = here
    world.flush(compactor)
    world.check_rows()


def test_it_stands_behind_producers_until_it_is_late(world: World) -> None:
    topic = world.topic("t", 4)
    seen: list[tuple[int, set[int]]] = []
    session: list[int] = []

    def spread(tasks: list[list[FileTask]]) -> list[list[Written | Failed]]:
        seen.append((len(tasks), {t.niceness for task in tasks for t in task}))
        return here(tasks)

    def set_niceness(niceness: int) -> bool:
        session.append(niceness)
        return True

    compactor = world.compactor(spread, set_niceness=set_niceness)
    for wait_ms in (FLUSH_MS, 2 * FLUSH_MS + 1, FLUSH_MS):
        for partition in range(4):
            world.produce(topic, some(10), partition)
        compactor.step()
        world.clock.advance(wait_ms)
        compactor.step()
    world.check_rows()
    assert seen == [(2, {15}), (2, {0}), (2, {15})]
    assert session == [15, 0, 15]


def test_a_round_is_as_wide_as_the_cluster_is_when_it_begins(world: World) -> None:
    topic = world.topic("t", 8)
    seen: list[int] = []

    def spread(tasks: list[list[FileTask]]) -> list[list[Written | Failed]]:
        seen.append(len(tasks))
        return here(tasks)

    cores = [2, 8, 3]
    compactor = world.compactor(spread, cores=lambda: cores[len(seen)])
    for _ in cores:
        for partition in range(8):
            world.produce(topic, some(10), partition)
        world.flush(compactor)
    assert seen == cores
    world.check_rows()


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
    assert compactor.status().stuck == 1
    problems = check_data_directory(world.data_dir).problems
    assert any("checksum" in problem for problem in problems)


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
    assert compactor.status().damaged_places == 1
    assert compactor.status().stuck == 1
    assert check_data_directory(world.data_dir).problems
    # whoever looks anew, and at segments that follow, stops at the same place
    world.roll()
    world.produce(topic, some(10), 0)
    world.flush(world.compactor())
    assert len(world.rows(topic, 0)) == 10 * lost


def test_a_segment_of_which_nothing_can_be_read_is_not_committed_over(
    world: World,
) -> None:
    """A page takes its one batch and its footer."""
    topic = world.topic("t")
    for _ in range(3):
        world.produce(topic, some(10))
        world.roll()
    lost = world.wal.segments()[1]
    with open(lost.path, "r+b") as file:
        file.seek(HEADER_BLOCK_BYTES)
        file.write(bytes(HEADER_BLOCK_BYTES))
    compactor = world.compactor()
    world.flush(compactor)
    assert len(world.rows(topic)) == 10
    assert compactor.status().stuck == 1


@pytest.mark.parametrize("is_listed", [False, True])
def test_a_missing_segment_is_not_committed_over(world: World, is_listed: bool) -> None:
    """Also if no checkpoint knows of what it held, and no broker runs."""
    topic, other = world.topic("t"), world.topic("other")
    for _ in range(3):
        world.produce(topic, some(10))
        world.restart_log() if is_listed else world.roll()
    world.produce(other, some(10))
    lost = world.wal.segments()[1]
    lost.path.unlink()
    compactor = world.compactor()
    world.flush(compactor)
    assert len(world.rows(topic)) == 10
    assert len(world.rows(other)) == 10
    assert compactor.status().stuck == 1
    problems = " ".join(compactor.status().problems)
    assert f"segment {lost.sequence}: it is lost and may have held" in problems
    [problem, *_] = check_data_directory(world.data_dir).problems
    assert f"segment {lost.sequence} is lost" in problem


def test_what_was_released_before_the_checkpoint_was_lost_is_not_told_for_ever(
    world: World,
) -> None:
    """Until the next checkpoint nobody knows that it was not lost."""
    topic, compactor = world.topic("t"), world.compactor()
    numbers = []
    for _ in range(3):
        world.produce(topic, some(10))
        numbers.append(world.wal.segments()[-1].sequence)
        world.roll()
    world.flush(compactor)
    world.checkpoint()
    world.wal.release(numbers[1])
    world.restart_log()
    for path in (world.data_dir / "wal").glob("*.log"):
        identity = read_identity(path.read_bytes()[:HEADER_BLOCK_BYTES])
        if identity is not None and identity.sequence == numbers[1]:
            path.unlink()
    (world.data_dir / "wal" / "checkpoint").unlink()
    world.restart_log(is_whole=False)
    world.flush(compactor)
    told = (
        f"segment {numbers[1]} is lost or was released: its file is missing, and there "
        "is no checkpoint yet that would tell"
    )
    assert compactor.status().problems == (f"the log is damaged: {told}",)
    assert check_data_directory(world.data_dir).problems == [told]
    world.checkpoint()
    world.flush(compactor)
    assert compactor.status().problems == ()
    assert check_data_directory(world.data_dir).problems == []


def test_what_stands_behind_a_damaged_first_sector_comes_into_the_table(
    world: World,
) -> None:
    topic, compactor = world.topic("t"), world.compactor()
    for _ in range(3):
        world.produce(topic, some(10))
        world.roll()
    damaged = world.wal.segments()[1]
    with damaged.path.open("r+b") as file:
        file.write(b"\xff" * 512)
    world.flush(compactor)
    world.check_rows()
    told = f"segment {damaged.sequence}: its first sector is unreadable"
    assert compactor.status().problems == (f"the log is damaged: {told}",)
    named = f"{told} (file wal/{damaged.path.name})"
    assert check_data_directory(world.data_dir).problems == [named]


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


def test_it_says_how_long_rounds_took_and_records_waited(world: World) -> None:
    orders, clicks = world.topic("orders", 2), world.topic("clicks")
    compactor = world.compactor()
    world.produce(orders, some(20))
    compactor.step()
    world.clock.advance(FLUSH_MS - 10)
    world.produce(clicks, some(7))
    compactor.step()
    world.clock.advance(10)
    compactor.step()
    said = compactor.status()
    assert said.freshness_ms == {"orders": FLUSH_MS}
    assert said.freshness.total == FLUSH_MS * 1_000_000
    world.clock.advance(FLUSH_MS - 10)
    compactor.step()
    said = compactor.status()
    assert said.freshness_ms == {"orders": FLUSH_MS, "clicks": FLUSH_MS}
    assert sum(said.round_times.buckets) == said.counters["rounds_total"] == 2
    assert said.round_rows.total == said.counters["rows_total"] == 27
    assert said.round_bytes.total == said.counters["log_bytes_total"]
