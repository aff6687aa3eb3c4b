"""Whoever takes his rows out of the way does not wait for the next try."""

import json
from pathlib import Path
from typing import Any

import deltalake
import pytest

from jobs.compactor import Compactor
from lakehouse.log.delta_log import entry_path, load
from tests.jobs.world import World
from tests.support.batches import Record
from tests.support.tables import rows

RECORDS = [Record(b"k", b"v")] * 10


def insert(world: World, topic: Any, offsets: list[int]) -> None:
    owners = str(world.path(topic))
    deltalake.write_deltalake(owners, rows(0, offsets, topic.name), mode="append")


def delete(world: World, topic: Any, where: str) -> None:
    deltalake.DeltaTable(str(world.path(topic))).delete(where)


def blocked(world: World, compactor: Compactor, offsets: list[int]) -> Any:
    """A topic with ten records in its table, of which partition 0 is stopped."""
    topic = world.topic("theirs", 2)
    world.produce(topic, RECORDS)
    world.flush(compactor)
    insert(world, topic, offsets)
    world.produce(topic, RECORDS)
    world.flush(compactor)
    compactor.step()
    [problem] = compactor.status().problems
    assert "partition 0 has rows at offsets" in problem
    return topic


def files_of(world: World, topic: Any) -> set[str]:
    return {path.name for path in world.path(topic).glob("partition=*/*")}


def test_it_goes_on_as_soon_as_the_rows_are_gone(world: World) -> None:
    compactor = world.compactor()
    topic = blocked(world, compactor, [15])
    delete(world, topic, "offset = 15")
    compactor.step()
    world.check_rows()
    compactor.step()
    assert compactor.status().problems == ()


def test_other_commits_cause_no_try(world: World) -> None:
    compactor = world.compactor()
    topic = blocked(world, compactor, [15, 17])
    before = compactor.counters.rounds, files_of(world, topic)
    for offset in (3, 15):  # one of the two rows stays
        delete(world, topic, f"offset = {offset} AND partition = 0")
        for _ in range(3):
            compactor.step()
    found = compactor.counters.rounds, files_of(world, topic)
    assert found[0] == before[0]
    assert not found[1] & {name for name in found[1] if name.startswith(f"{10:020d}")}
    delete(world, topic, "offset = 17")
    compactor.step()
    assert len(world.rows(topic)) == 19


def test_commits_of_other_partitions_cause_no_try(world: World) -> None:
    compactor = world.compactor()
    topic = blocked(world, compactor, [15])
    for _ in range(3):
        before = load(str(world.path(topic))).version
        world.produce(topic, RECORDS, 1)
        world.flush(compactor)
        assert load(str(world.path(topic))).version == before + 1
    assert len(world.rows(topic)) == 11
    assert len(world.rows(topic, 1)) == 30


def test_what_a_look_finds_and_a_commit_does_not_is_tried_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the two disagree on, the table must move before the next try."""
    compactor = world.compactor()
    topic = blocked(world, compactor, [15])
    monkeypatch.setattr("jobs.blocked.has_rows", lambda *_: False)
    insert(world, topic, [3])
    before = compactor.counters.rounds
    for _ in range(10):
        compactor.step()
    assert compactor.counters.rounds == before + 1
    delete(world, topic, "offset = 15")
    compactor.step()
    assert len(world.rows(topic)) == 20 + 1


def test_a_try_in_vain_leaves_no_file(world: World) -> None:
    compactor = world.compactor()
    topic = blocked(world, compactor, [15])
    before = files_of(world, topic)
    for _ in range(3):
        world.produce(topic, RECORDS)
        world.clock.advance(60_000)
        world.flush(compactor)
    forbid(world, topic)
    for _ in range(3):
        world.produce(topic, RECORDS, 1)
        world.clock.advance(60_000)
        world.flush(compactor)
    assert files_of(world, topic) == before


def forbid(world: World, topic: Any, name: str = "rowTracking") -> Path:
    """Commit that the table needs what our writer does not know."""
    path = str(world.path(topic))
    entry = Path(entry_path(path, load(path).version + 1))
    protocol = {
        "minReaderVersion": 1, "minWriterVersion": 7,
        "writerFeatures": [name, "domainMetadata"],
    }  # fmt: skip
    entry.write_text(json.dumps({"protocol": protocol}))
    return entry


def test_a_reason_that_is_no_more_is_not_told_beside_a_new_one(world: World) -> None:
    compactor = world.compactor()
    topic = world.topic("theirs", 1)
    world.produce(topic, RECORDS)
    world.flush(compactor)
    entry = forbid(world, topic)
    world.produce(topic, RECORDS)
    for _ in range(3):
        world.flush(compactor)
    compactor.step()
    [problem] = compactor.status().problems
    assert "takes no commit" in problem
    entry.unlink()
    insert(world, topic, [15])
    world.clock.advance(60_000)
    world.flush(compactor)
    compactor.step()
    [problem] = compactor.status().problems
    assert "rows at offsets 15" in problem
    delete(world, topic, "offset = 15")
    forbid(world, topic)
    for _ in range(3):
        world.clock.advance(60_000)
        world.flush(compactor)
    [problem] = compactor.status().problems
    assert "takes no commit" in problem


@pytest.mark.parametrize("then", ["refused", "blocked"])
def test_records_that_were_found_again_are_missing_no_more(
    world: World, then: str
) -> None:
    compactor = world.compactor()
    topic = world.topic("theirs", 1)
    for _ in range(2):
        world.produce(topic, RECORDS)
        world.flush(compactor)
    world.release()
    entry = Path(entry_path(str(world.path(topic)), 2))
    kept = entry.read_bytes()
    entry.unlink()
    world.produce(topic, RECORDS)
    for _ in range(3):
        world.flush(compactor)
    compactor.step()
    [problem] = compactor.status().problems
    assert "are in no segment" in problem
    entry.write_bytes(kept)
    if then == "refused":
        forbid(world, topic)
    else:
        insert(world, topic, [25])
    for _ in range(3):
        world.clock.advance(60_000)
        world.flush(compactor)
    compactor.step()
    [problem] = compactor.status().problems
    assert "are in no segment" not in problem
