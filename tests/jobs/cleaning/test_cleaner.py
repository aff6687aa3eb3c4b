"""Cleans over a real log and real tables, with the workers' part done in-process."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import deltalake
import pytest

from jobs.check import check_data_directory
from jobs.cleaning.cleaner import LOOK_AGAIN_MS
from jobs.cleaning.rewrite import CleanTask
from jobs.compactor import Compactor
from jobs.looks import LOOK_EVERY_MS
from jobs.merging.names import mark_of
from lakehouse.log.actions import parse_commit
from lakehouse.log.delta_log import entry_versions, load, read_entry
from tests.jobs.world import (
    WEEK,
    MergesHere,
    World,
    alter_configs,
    move_elsewhere,
    start_at,
)
from tests.support.batches import Record
from tests.support.bitmaps import delete_rows
from tests.support.tables import Writer

COMPACT = {"cleanup.policy": "compact"}
ALWAYS = COMPACT | {"min.cleanable.dirty.ratio": "0"}
"""Small files are nearly all footer."""
DAY_MS = 86_400_000


def compactor(world: World, tasks: MergesHere | None = None, **lake: Any) -> Compactor:
    return world.compactor(merges=tasks or MergesHere(), **lake)


def keyed(keys: Sequence[str], value: bytes | None = b"v") -> list[Record]:
    headers = ((b"h", b"1"), (b"h", None))
    return [
        Record(key.encode(), value, headers if i % 2 else (), 1_700_000_000_000 + i)
        for i, key in enumerate(keys)
    ]


def put(world: World, topic: Any, steps: Compactor, keys: str, **more: Any) -> None:
    """A record of each of these letters, in a file of their own."""
    world.produce(topic, keyed(keys, **more))
    world.flush(steps)


def clean(world: World, steps: Compactor, times: int = 4) -> None:
    """Time for every table to be looked at, and to be cleaned."""
    world.clock.advance(LOOK_AGAIN_MS)
    for _ in range(times):
        world.clock.advance(LOOK_EVERY_MS)
        steps.step()


def shown(world: World, topic: Any) -> list[tuple[int, str]]:
    """(Offset, key) of what is left."""
    return [(row.offset, row.key.decode()) for row in world.rows(topic)]


def operations(world: World, topic: Any) -> list[str]:
    path = str(world.path(topic))
    return [
        parse_commit(version, read_entry(path, version)).info.get("operation", "")
        for version in entry_versions(path)
    ]


def cleans(world: World, topic: Any) -> int:
    return operations(world, topic).count("LAKELOG CLEAN")


def problems(world: World) -> list[str]:
    return check_data_directory(world.data_dir).problems


def test_the_last_record_of_each_key_stays_as_it_was(world: World) -> None:
    topic = world.topic("t", 2, COMPACT)
    steps = compactor(world)
    world.produce(topic, keyed("abcab"), 0)
    world.produce(topic, keyed("xx"), 1)
    world.flush(steps)
    clean(world, steps)
    produced = world.produced[topic.number, 0]
    assert world.rows(topic, 0) == produced[2:]
    assert world.rows(topic, 1) == world.produced[topic.number, 1][1:]
    totals = steps.counters.totals()
    assert (totals["cleans_total"], totals["cleaned_rows_total"]) == (2, 3)
    assert problems(world) == []
    world.release()
    assert problems(world) == []


def test_other_topics_are_left_alone_and_so_is_what_is_turned_off(
    world: World,
) -> None:
    plain, compacted = world.topic("plain"), world.topic("t", 1, COMPACT)
    steps = compactor(world, clean=False)
    for topic in (plain, compacted):
        put(world, topic, steps, "aaa")
    clean(world, steps)
    assert (cleans(world, plain), cleans(world, compacted)) == (0, 0)
    steps = compactor(world)
    put(world, plain, steps, "aaa")
    clean(world, steps)
    assert (cleans(world, plain), cleans(world, compacted)) == (0, 1)


def test_the_policy_may_change_at_any_time(world: World) -> None:
    topic, steps = world.topic("t"), compactor(world)
    put(world, topic, steps, "aab")

    clean(world, steps)
    assert cleans(world, topic) == 0
    alter_configs(world, topic, {"cleanup.policy": "compact,delete"})
    put(world, topic, steps, "a")
    clean(world, steps)
    assert shown(world, topic) == [(2, "b"), (3, "a")]
    alter_configs(world, topic, {"cleanup.policy": "delete"})
    put(world, topic, steps, "aaa")
    clean(world, steps)
    assert [offset for offset, _ in shown(world, topic)] == [2, 3, 4, 5, 6]


def test_what_is_clean_is_cleaned_again_once_enough_is_dirty(world: World) -> None:
    topic, steps = world.topic("t", 1, COMPACT), compactor(world)
    put(world, topic, steps, "abcdefgh" * 100)
    clean(world, steps)
    assert cleans(world, topic) == 1
    clean(world, steps)
    assert cleans(world, topic) == 1, "nothing is dirty"
    before = [keys for _, keys in shown(world, topic)]
    assert before == list("abcdefgh")
    for _ in range(3):
        put(world, topic, steps, "ab")
    clean(world, steps)
    assert cleans(world, topic) == 2
    assert [key for _, key in shown(world, topic)] == list("cdefghab")
    assert problems(world) == []


def test_tombstones_stay_for_their_time_and_no_longer(world: World) -> None:
    topic, steps = world.topic("t", 1, ALWAYS), compactor(world)
    put(world, topic, steps, "abc")
    put(world, topic, steps, "b", value=None)
    clean(world, steps)
    assert shown(world, topic) == [(0, "a"), (2, "c"), (3, "b")]
    put(world, topic, steps, "xyxyxyxyxyxy")
    world.clock.advance(DAY_MS - LOOK_AGAIN_MS * 3)
    clean(world, steps)
    assert cleans(world, topic) == 2
    assert (3, "b") in shown(world, topic)
    put(world, topic, steps, "xyxyxyxyxyxy" * 2)
    world.clock.advance(DAY_MS // 4)
    clean(world, steps)
    assert cleans(world, topic) == 3
    assert [key for _, key in shown(world, topic)] == list("acxy")
    assert problems(world) == []


def test_table_ends_stay_where_nothing_but_old_tombstones_was_left(
    world: World,
) -> None:
    topic = world.topic("t", 1, ALWAYS | {"delete.retention.ms": "0"})
    steps = compactor(world)
    put(world, topic, steps, "aab")
    for _ in range(3):
        put(world, topic, steps, "ab", value=None)
        clean(world, steps)
    assert shown(world, topic) == [(7, "a"), (8, "b")]
    put(world, topic, steps, "a", value=None)
    put(world, topic, steps, "b", value=None)
    clean(world, steps)
    world.clock.advance(WEEK)
    clean(world, steps)
    world.release()
    put(world, topic, compactor(world), "c")
    assert shown(world, topic) == [(9, "a"), (10, "b"), (11, "c")]
    assert problems(world) == []


@pytest.mark.parametrize(
    ("configs", "times"),
    [
        ({"min.compaction.lag.ms": str(1 << 60)}, 0),
        ({"min.cleanable.dirty.ratio": "1"}, 0),
        ({"min.cleanable.dirty.ratio": "1", "max.compaction.lag.ms": "1"}, 1),
    ],
    ids=["too young", "not dirty enough", "waited long enough"],
)
def test_it_waits_as_long_as_the_topic_says(
    world: World, configs: dict[str, str], times: int
) -> None:
    topic, steps = world.topic("t", 1, COMPACT | configs), compactor(world)
    put(world, topic, steps, "aaa")
    clean(world, steps)
    assert cleans(world, topic) == times


def test_nothing_begins_while_records_are_late(world: World) -> None:
    topic, tasks = world.topic("t", 1, COMPACT), MergesHere()
    steps = compactor(world, tasks)
    put(world, topic, steps, "aaa")
    tasks.tasks.clear()
    world.produce(topic, keyed("a"))
    steps.step()
    world.clock.advance(LOOK_AGAIN_MS)
    steps.step()
    assert tasks.tasks == []
    clean(world, steps)
    assert len(tasks.tasks) == 1


def owner(world: World, topic: Any) -> deltalake.DeltaTable:
    return deltalake.DeltaTable(str(world.path(topic)))


def on_disk(world: World, topic: Any) -> set[Path]:
    return set(world.path(topic).glob("partition=*/*.parquet"))


def test_an_owner_who_was_faster_wins_and_loses_nothing(world: World) -> None:
    topic, acts = world.topic("t", 1, COMPACT), [1]

    def update(task: CleanTask) -> None:
        if acts:
            acts.pop()
            owner(world, topic).update({"value": "'theirs'"}, predicate="offset = 4")

    steps = compactor(world, MergesHere(update))
    put(world, topic, steps, "abcabd")
    clean(world, steps)
    assert cleans(world, topic) == 0
    assert len(on_disk(world, topic)) == 2, "what the clean wrote is gone"
    assert steps.counters.cleans_failed == 1
    clean(world, steps)
    clean(world, steps)
    assert [(o, k) for o, k in shown(world, topic)] == [
        (2, "c"), (3, "a"), (4, "b"), (5, "d"),
    ]  # fmt: skip
    assert world.rows(topic)[2].value == b"theirs"


def test_what_an_owner_rewrote_is_looked_at_again(world: World) -> None:
    topic, steps = world.topic("t", 1, ALWAYS), compactor(world)
    put(world, topic, steps, "ab")
    clean(world, steps)
    owner(world, topic).update({"key": "'b'"}, predicate="offset = 0")
    clean(world, steps)
    assert shown(world, topic) == [(1, "b")]


def test_a_table_of_which_nothing_may_leave_is_reported(world: World) -> None:
    topic, steps = world.topic("t", 1, COMPACT), compactor(world)
    put(world, topic, steps, "aa")
    owner(world, topic).alter.set_table_properties({"delta.appendOnly": "true"})
    clean(world, steps)
    assert steps.status().left_alone == {"t": "delta.appendOnly is true"}
    owner(world, topic).alter.set_table_properties({"delta.appendOnly": "false"})
    clean(world, steps)
    steps.step()
    assert (steps.status().left_alone, cleans(world, topic)) == ({}, 1)


def test_history_says_what_left(world: World) -> None:
    topic, steps = world.topic("t", 1, COMPACT), compactor(world)
    put(world, topic, steps, "aab")
    put(world, topic, steps, "a")
    clean(world, steps)
    [latest] = owner(world, topic).history(1)
    assert latest["operation"] == "LAKELOG CLEAN"
    said = json.loads(latest["userMetadata"])
    assert said["cleaned"] == {"0": [0, 4, 2, 4, 2]}
    metrics = latest["operationMetrics"]
    assert (metrics["numDeletedRows"], metrics["numOutputRows"]) == ("2", "2")


def test_what_was_replaced_goes_after_the_tables_own_period(world: World) -> None:
    topic, steps = world.topic("t", 1, COMPACT), compactor(world)
    for keys in ("ab", "ab", "ab"):
        put(world, topic, steps, keys)
    clean(world, steps)
    assert len(on_disk(world, topic)) == 4
    world.clock.advance(2 * WEEK)
    steps.step()
    assert len(on_disk(world, topic)) == 1
    assert [key for _, key in shown(world, topic)] == ["a", "b"]


def test_retention_takes_cleaned_files_as_others(world: World) -> None:
    both = {"cleanup.policy": "compact,delete"}
    topic, steps = world.topic("t", 1, both), compactor(world)
    put(world, topic, steps, "aab")
    clean(world, steps)
    start_at(world, topic, 3)
    put(world, topic, steps, "c")
    world.clock.advance(LOOK_AGAIN_MS)
    steps.step()
    assert shown(world, topic) == [(3, "c")]
    assert problems(world) == []


def test_cleaned_files_are_joined_with_their_like_alone(world: World) -> None:
    topic, steps = world.topic("t", 1, COMPACT), compactor(world, merge=True)
    put(world, topic, steps, "abcdefgh" * 50)
    clean(world, steps)
    [cleaned] = load(str(world.path(topic))).files.values()
    alter_configs(world, topic, COMPACT | {"min.cleanable.dirty.ratio": "1"})
    for _ in range(18):
        put(world, topic, steps, "z")
    clean(world, steps)
    files = load(str(world.path(topic))).files
    assert "LAKELOG MERGE" in operations(world, topic)
    assert cleaned.path in files
    assert len(files) < 10
    assert [mark_of(path) is not None for path in files].count(True) == 1
    assert [key for _, key in shown(world, topic)] == [*"abcdefgh", *18 * "z"]
    assert problems(world) == []


def test_a_policy_that_changes_while_a_clean_is_written_is_obeyed(
    world: World,
) -> None:
    topic, tasks = world.topic("t", 1, COMPACT), MergesHere()
    steps = compactor(world, tasks)
    put(world, topic, steps, "aab")
    world.clock.advance(LOOK_AGAIN_MS)
    steps.step()
    assert len(tasks.tasks) == 1, "one is under way"
    alter_configs(world, topic, {"cleanup.policy": "delete"})
    clean(world, steps)
    assert cleans(world, topic) == 0
    assert [offset for offset, _ in shown(world, topic)] == [0, 1, 2]
    assert len(on_disk(world, topic)) == 1, "what the clean wrote is gone"


def test_a_partition_that_cannot_be_cleaned_rests_while_others_are(
    world: World,
) -> None:
    topic, tasks = world.topic("t", 2, ALWAYS), MergesHere()
    steps = compactor(world, tasks)
    put(world, topic, steps, "aab")
    [file] = on_disk(world, topic)
    damaged = bytearray(file.read_bytes())
    damaged[20] ^= 0xFF  # in a page of the first column
    file.write_bytes(damaged)
    for _ in range(30):
        world.produce(topic, keyed("ab"), 1)
        world.flush(steps)
        clean(world, steps)
    tried = [task.partition for task in tasks.tasks]
    assert tried.count(1) > 20
    assert 1 <= tried.count(0) < 8
    assert "its keys are not compacted" in steps.status().left_alone["t"]


def test_what_waits_behind_a_deletion_vector_is_told_until_it_is_gone(
    world: World,
) -> None:
    topic, steps = world.topic("t", 1, ALWAYS), compactor(world)
    put(world, topic, steps, "ab")
    put(world, topic, steps, "ab")
    path = str(world.path(topic))
    as_it_was = load(path).version
    [_, second] = sorted(load(path).files)
    theirs = Writer.__new__(Writer)  # of a table that is there
    theirs.path = path
    delete_rows(theirs, {second: [1]})
    clean(world, steps)
    assert steps.status().left_alone == {}, "nothing is behind it"
    put(world, topic, steps, "ab")
    clean(world, steps)
    steps.step()
    assert second in steps.status().left_alone["t"]
    assert "PURGE" in steps.status().left_alone["t"]
    owner(world, topic).restore(as_it_was)
    clean(world, steps)
    clean(world, steps)
    assert steps.status().left_alone == {}
    [left] = load(path).files.values()
    assert (left.first_offset, left.rows, left.vector) == (2, 2, None)


def test_a_file_that_lies_elsewhere_is_none_to_clean(world: World) -> None:
    topic, tasks = world.topic("t", 1, ALWAYS), MergesHere()
    steps = compactor(world, tasks, clean=False)
    for _ in range(3):
        put(world, topic, steps, "ab")
    files = load(str(world.path(topic))).files.values()
    second = sorted(files, key=lambda file: file.first_offset)[1]
    elsewhere = move_elsewhere(world, topic, second)
    steps = compactor(world, tasks)
    clean(world, steps)
    clean(world, steps)
    assert [task.end for task in tasks.tasks] == [2], "it and what is behind it wait"
    assert str(elsewhere) in load(str(world.path(topic))).files
    assert "elsewhere.parquet" in steps.status().left_alone["t"]
