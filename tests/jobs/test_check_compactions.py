"""What readers would take in place of a table's entries is told."""

import os
import shutil
from pathlib import Path
from typing import Any

import deltalake
import pytest

from jobs.check import check_data_directory
from jobs.check_compactions import check_compactions
from jobs.check_report import Report
from lakehouse.log.delta_log import entry_path, load
from tests.jobs.world import World
from tests.support.batches import Record
from tests.support.compacted_log import compact_log


@pytest.fixture
def topic(world: World) -> Any:
    topic, compactor = world.topic("t"), world.compactor()
    for _ in range(2):
        world.produce(topic, [Record(b"k", b"v" * 50)] * 10)
        world.flush(compactor)
    deltalake.DeltaTable(str(world.path(topic))).delete("offset = 3")
    return topic


def check(world: World) -> Report:
    return check_data_directory(world.data_dir)


def test_a_log_compaction_of_what_is_there_is_no_problem(
    world: World, topic: Any
) -> None:
    for first, last in ((0, 3), (1, 2), (3, 3)):
        compact_log(str(world.path(topic)), first, last)
    assert check(world).problems == []


def test_one_that_reaches_beyond_the_last_entry_is(world: World, topic: Any) -> None:
    path = str(world.path(topic))
    file, _ = compact_log(path, 2, 3)
    compact_log(path, 1, 2)
    os.unlink(entry_path(path, 3))
    [problem] = check(world).problems
    assert problem == (
        f"t: {file.name} reaches beyond the last entry of its log, 2, and Spark would "
        "read it in place of the entries to come: start a compactor, which deletes it"
    )
    world.produce(topic, [Record(b"k", b"v" * 50)] * 10)
    world.flush(world.compactor())
    assert not file.exists()
    assert check(world).problems == []


def test_so_is_one_that_reaches_to_a_torn_entry(world: World, topic: Any) -> None:
    path = str(world.path(topic))
    file, _ = compact_log(path, 2, 3)
    entry = Path(entry_path(path, 3))
    entry.write_bytes(entry.read_bytes()[:500])
    [problem] = check(world).problems
    assert problem.startswith(f"t: {file.name} reaches beyond the last entry of its")
    assert problem.endswith("a compactor deletes it with the next records, as it moves "
                            "the torn entry aside")  # fmt: skip
    world.produce(topic, [Record(b"k", b"v" * 50)] * 10)
    world.flush(world.compactor())
    assert check(world).problems == []


@pytest.mark.parametrize("is_empty", [True, False])
def test_one_that_is_no_copy_of_its_entries_is_too(
    world: World, topic: Any, is_empty: bool
) -> None:
    """A power cut left nothing of it; or a version of Lakelog before put an entry at a
    version that it had already."""
    path = str(world.path(topic))
    file, _ = compact_log(path, 2, 3)
    if is_empty:
        file.write_bytes(b"")
    else:
        Path(entry_path(path, 3)).write_text('{"commitInfo":{"operation":"HIS"}}')
    [problem] = check(world).problems
    why = "it says nothing" if is_empty else "it says otherwise of "
    assert problem.startswith(
        f"t: {file.name} of its log is no copy of its entries ({why}"
    )
    assert problem.endswith("), and Spark reads it in place of these: delete it")
    file.unlink()
    assert check(world).problems == []


def test_one_of_an_entry_that_came_during_the_look_is_none(
    world: World, topic: Any
) -> None:
    path, report = str(world.path(topic)), Report()
    before = load(path)
    Path(entry_path(path, 4)).write_text('{"commitInfo":{"operation":"HIS"}}')
    compact_log(path, 2, 4)
    check_compactions(before, topic, report)
    assert report.problems == []
    shutil.rmtree(path)
    check_compactions(before, topic, report)
    assert report.problems == []
