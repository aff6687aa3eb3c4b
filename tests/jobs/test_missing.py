"""What a table lost is never committed over; what was refused or deleted is."""

import json
import os
import shutil
from typing import Any

import pytest

from broker.catalog import topics as catalog_topics
from broker.status.schema import TAKEN, way_out
from jobs.backlog import LOOK_AGAIN_MS
from jobs.check import check_data_directory
from jobs.compactor import Compactor
from lakehouse.errors import CommitRefused
from lakehouse.log.commit import commit_files
from lakehouse.log.delta_log import entry_path, load, table_ends
from tests.jobs.world import World, damage
from tests.support.batches import Record, make_batch
from tests.support.damage import segment_with

RECORDS = [Record(b"k", b"v")] * 10


def filled(world: World, compactor: Compactor, rounds: int = 2) -> Any:
    """A topic of which nothing is left in segments, in a table of that many commits."""
    topic = world.topic("theirs", 2)
    for _ in range(rounds):
        world.produce(topic, RECORDS)
        world.flush(compactor)
    world.release()
    return topic


def go_on(world: World, compactor: Compactor, *topics: Any) -> None:
    """More records, and time enough to fail twice."""
    for topic in topics:
        world.produce(topic, RECORDS)
    for _ in range(3):
        world.flush(compactor)
    compactor.step()


def ends_of(world: World, topic: Any) -> dict[int, int]:
    return table_ends(load(str(world.path(topic))), topic.id.hex())


def only_problem(compactor: Compactor) -> str:
    [problem] = compactor.status().problems
    assert compactor.status().stuck == 1
    return problem


@pytest.mark.parametrize("runs_on", [False, True])
@pytest.mark.parametrize("rounds", [1, 2])
def test_a_lost_commit_is_not_committed_over(
    world: World, runs_on: bool, rounds: int
) -> None:
    compactor = world.compactor()
    theirs, other = filled(world, compactor, rounds), world.topic("other")
    entry = world.path(theirs) / entry_path("", rounds)
    kept = entry.read_bytes()
    entry.unlink()
    compactor = compactor if runs_on else world.compactor()
    go_on(world, compactor, theirs, other)
    reached = 10 * (rounds - 1)
    assert ends_of(world, theirs).get(0, 0) == reached
    assert f"offsets {reached} to {10 * rounds - 1} of partition 0" in only_problem(
        compactor
    )
    assert len(world.rows(other)) == 10
    assert len(check_data_directory(world.data_dir).problems) == 1
    entry.write_bytes(kept)  # it is found again
    world.clock.advance(60_000)
    world.flush(compactor)
    compactor.step()
    assert compactor.status().problems == ()
    world.check_rows()
    assert check_data_directory(world.data_dir).problems == []


def test_the_files_of_a_lost_commit_are_nobodys_to_delete(world: World) -> None:
    """The owner may put the log entry back, and the only copy of the rows is there."""
    compactor = world.compactor()
    theirs = filled(world, compactor)
    entry = world.path(theirs) / entry_path("", 2)
    kept = entry.read_bytes()
    entry.unlink()
    compactor = world.compactor(file_delete_delay_ms=60_000)
    world.produce(theirs, RECORDS)
    files = {*world.path(theirs).glob("partition=0/*")}
    superfluous = next(iter(files)).with_name(f"{20:020d}-{30:020d}-dead-1.parquet")
    superfluous.write_bytes(b"of a round that was refused: the log has its records")
    now_s = world.clock.now_ms() / 1000
    for path in (*files, superfluous):
        os.utime(path, (now_s, now_s))
    world.flush(compactor)
    world.clock.advance(120_000)
    world.flush(compactor)
    assert "are in no segment" in only_problem(compactor)
    assert not superfluous.exists()
    entry.write_bytes(kept)
    world.clock.advance(60_000)
    world.flush(compactor)
    compactor.step()
    assert compactor.status().problems == ()
    world.check_rows()
    assert check_data_directory(world.data_dir).problems == []


def test_the_other_partitions_of_the_topic_go_on(world: World) -> None:
    compactor = world.compactor()
    theirs = filled(world, compactor)
    (world.path(theirs) / entry_path("", 2)).unlink()
    compactor = world.compactor()
    world.produce(theirs, RECORDS, 1)
    go_on(world, compactor, theirs)
    assert ends_of(world, theirs) == {0: 10, 1: 10}


@pytest.mark.parametrize("runs_on", [False, True])
@pytest.mark.parametrize("partition", [0, 1])
def test_a_table_that_is_gone_is_not_made_anew(
    world: World, runs_on: bool, partition: int
) -> None:
    compactor = world.compactor()
    theirs, other = filled(world, compactor), world.topic("other")
    path, away = world.path(theirs), world.data_dir / "away"
    path.rename(away)
    compactor = compactor if runs_on else world.compactor()
    world.produce(theirs, RECORDS, partition)
    go_on(world, compactor, other)
    assert not (path / "_delta_log").exists()
    assert "offsets 0 to 19 of partition 0 are in no segment" in only_problem(compactor)
    assert len(world.rows(other)) == 10
    shutil.rmtree(path, ignore_errors=True)
    away.rename(path)
    world.clock.advance(60_000)
    world.flush(compactor)
    compactor.step()
    assert compactor.status().problems == ()
    world.check_rows()


def test_a_lost_segment_of_a_topic_without_a_table_stops_all_of_it_until_it_is_given_up(
    world: World,
) -> None:
    """Nobody knows whether there was a table, and what of the others that had."""
    topic = world.topic("t", 2, configs={"lake.retention.ms": "-1"})
    for value in (b"a", b"LOST", b"c"):
        world.produce(topic, [Record(b"k", value)] * 5)
        world.produce(topic, [Record(b"k", b"whole")] * 3, 1 if value != b"LOST" else 0)
        world.roll()
    world.checkpoint()
    segment_with(world.data_dir / "wal", b"LOST").unlink()
    world.restart_log(is_whole=False)
    compactor = world.compactor()
    for _ in range(3):
        world.flush(compactor)
    assert compactor.status().problems[0].endswith(f". {way_out(13, TAKEN)}")
    assert (world.rows(topic), world.rows(topic, 1)) == ([], [])
    starts = {(topic.number, 0): 13}
    world.catalog.change(lambda c: catalog_topics.set_log_start(c, starts))
    for _ in range(2):
        world.clock.advance(LOOK_AGAIN_MS)
        world.flush(compactor)
    offsets = [[row.offset for row in world.rows(topic, p)] for p in (0, 1)]
    assert offsets == [[*range(5), *range(13, 18)], [*range(6)]]


def test_a_table_that_its_owner_replaced_is_refused(world: World) -> None:
    """And nobody is told to give up what its files have."""
    compactor = world.compactor()
    theirs = filled(world, compactor)
    entry = world.path(theirs) / "_delta_log" / f"{0:020d}.json"
    actions = [json.loads(line) for line in entry.read_text().splitlines()]
    [metadata] = [line for line in actions if "metaData" in line]
    metadata["metaData"]["configuration"] = {}
    (world.path(theirs) / entry_path("", 3)).write_text(json.dumps(metadata))
    compactor = world.compactor()
    go_on(world, compactor, theirs)
    assert load(str(world.path(theirs))).version == 3
    problem = only_problem(compactor)
    assert "theirs was replaced in version 3 by its owner" in problem
    assert problem.endswith(
        ": RESTORE it to version 2, and delete again what was deleted since"
    )
    [table] = compactor.status().tables
    assert (table.readable, table.stuck) == (False, True)


@pytest.mark.parametrize("all_of_it", [False, True])
def test_who_gives_up_what_was_lost_goes_on(world: World, all_of_it: bool) -> None:
    compactor = world.compactor()
    theirs = filled(world, compactor)
    if all_of_it:
        shutil.rmtree(world.path(theirs))
    else:
        (world.path(theirs) / entry_path("", 2)).unlink()
    compactor = world.compactor()
    go_on(world, compactor, theirs)
    assert "are in no segment" in only_problem(compactor)
    problem = only_problem(compactor)
    assert problem.endswith(f". {way_out(20, TAKEN)}")
    assert "Put back what was taken from the table" in problem
    assert "with all before it for consumers (and for the table" in problem
    starts = {(theirs.number, 0): 20}  # as DeleteRecords moves it
    world.catalog.change(lambda c: catalog_topics.set_log_start(c, starts))
    world.clock.advance(60_000)
    world.flush(compactor)
    compactor.step()
    assert compactor.status().problems == ()
    assert [r.offset for r in world.rows(theirs) if r.offset >= 10] == [*range(20, 30)]


def test_what_lies_before_a_lost_segment_is_committed(world: World) -> None:
    """Else who gives the lost records up would give these up as well."""
    compactor = world.compactor()
    topic = world.topic("theirs")
    world.produce(topic, RECORDS)
    world.flush(compactor)
    for _ in range(3):
        world.roll()
        world.produce(topic, RECORDS)
    world.checkpoint()
    world.wal.segments()[2].path.unlink()
    for _ in range(3):
        world.flush(compactor)
    compactor.step()
    assert world.rows(topic) == world.produced[topic.number, 0][:20]
    assert ends_of(world, topic) == {0: 20}
    assert "offsets 20 to 29 of partition 0" in only_problem(compactor)


def test_who_lost_all_to_damage_does_not_hold_a_topic_that_has_no_table_yet(
    world: World,
) -> None:
    topic = world.topic("t", 2)
    world.produce(topic, RECORDS, 1)
    world.produce(topic, RECORDS, 0)
    [info] = world.wal.segments()
    world.checkpoint()
    damage(info.path, make_batch(RECORDS, 0))
    compactor = world.compactor()
    world.flush(compactor)
    compactor.step()
    assert len(world.rows(topic, 0)) == 10
    [problem] = compactor.status().problems
    assert "the log is damaged" in problem
    world.roll()
    world.produce(topic, RECORDS, 1)  # behind what it lost
    world.flush(compactor)
    compactor.step()
    assert world.rows(topic, 1) == []
    [stuck, damaged] = compactor.status().problems
    assert "t-1 cannot be compacted" in stuck
    assert "are damaged and may have held its next records" in stuck
    assert damaged == problem


def test_what_was_refused_or_deleted_is_not_missing(world: World) -> None:
    compactor = world.compactor()
    theirs = filled(world, compactor)
    world.produce(theirs, RECORDS, skip=3)
    world.flush(compactor)
    world.release()
    world.produce(theirs, RECORDS, skip=2)
    world.roll()
    world.checkpoint()
    world.flush(world.compactor())
    world.check_rows()


def test_what_was_deleted_before_it_was_in_a_table_is_not_missing(
    world: World,
) -> None:
    topic = world.topic("t")
    world.produce(topic, RECORDS)
    world.catalog.change(
        lambda c: catalog_topics.set_log_start(c, {(topic.number, 0): 10})
    )
    world.release()
    compactor = world.compactor()
    world.produce(topic, RECORDS)
    world.flush(compactor)
    assert len(world.rows(topic)) == 10
    assert compactor.status().problems == ()


def test_a_partition_without_commits_begins_anywhere_unless_it_had_some(
    world: World,
) -> None:
    compactor = world.compactor()
    theirs = filled(world, compactor)
    path, topic_id = str(world.path(theirs)), theirs.id.hex()
    with pytest.raises(CommitRefused, match="partition 1 ended at 7"):
        commit_files(path, topic_id, 9, {1: (7, 9)}, [], known_ends={1: 7})
    commit_files(path, topic_id, 9, {1: (7, 9)}, [])
