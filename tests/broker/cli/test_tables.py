"""What the tables' commands print of a data directory, without running parts."""

import json
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from broker.catalog import holds, schema
from broker.status.schema import BrokerStatus, TableState
from lakehouse.log.delta_log import entry_path, load
from tests.jobs.world import World
from tests.support.batches import Record
from tests.support.old_catalogs import take_back, version_of
from tests.support.partitioned_anew import partition_anew
from tests.support.patience import wait_until
from tests.support.process import told
from tests.support.saying import say, say_as


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    topic = world.topic("t")
    world.produce(topic, [Record(value=b"x")] * 3)
    world.flush(world.compactor())
    yield world
    world.close()


def tear(world: World) -> str:
    """Damage the first entry of the table's log; the entry."""
    entry = Path(entry_path(str(world.data_dir / "tables" / "t"), 0))
    entry.write_bytes(entry.read_bytes()[:20])
    return str(entry)


def test_a_sound_table_is_told(world: World) -> None:
    done = told("table", "t", "--data-dir", str(world.data_dir), "--json")
    assert (done.code, done.errors) == (0, "")
    found = json.loads(done.output)
    assert (found["version"], found["problem"]) == (1, None)
    [part] = found["partitions"]
    assert part == {  # only a broker knows the last stable offset
        "partition": 0, "log_start": 0, "table_end": 3, "high_watermark": 3,
        "segment_bytes": part["segment_bytes"], "files": 1, "small_files": 1,
    }  # fmt: skip
    assert (found["partition_files_max"], found["small_files"]) == (1, 1)
    assert found["write_amplification_percent"] == 100


def test_a_reason_that_the_parts_give_stands_there_once(world: World) -> None:
    stuck = TableState(topic="t", stuck=True, readable=False, why="its owner did it")
    say(world.data_dir, state="running", tables=(stuck,))
    place = ("--data-dir", str(world.data_dir))
    said = told("table", "t", *place).output
    assert "readable: False" in said
    assert "why: its owner did it" in said
    assert "problem:" not in said
    found = json.loads(told("table", "t", *place, "--json").output)
    assert (found["problem"], found["why"]) == (None, "its owner did it")


def test_a_reason_that_both_parts_and_the_table_give_stands_there_once(
    world: World,
) -> None:
    path = str(world.data_dir / "tables" / "t")
    partition_anew(path, [])
    why = load(path).unreadable
    said = f"its table takes no commit: {path}: {why}"
    say(
        world.data_dir, state="running",
        tables=(TableState(topic="t", stuck=True, why=said),), left_alone={"t": why},
    )  # fmt: skip
    unread = TableState(topic="t", readable=False, why=str(why))
    say_as(world.data_dir, BrokerStatus(state="serving", tables=(unread,)))
    place = ("--data-dir", str(world.data_dir))
    output = told("table", "t", *place).output
    assert f"why: {said}\n" in output
    assert output.count(str(why)) == 1
    found = json.loads(told("table", "t", *place, "--json").output)
    assert (found["why"], found["not_merged"]) == (said, why)


def test_reasons_that_differ_are_both_there(world: World) -> None:
    say(world.data_dir, tables=(TableState(topic="t", stuck=True, why="it is odd"),))
    unread = TableState(topic="t", readable=False, why="it is torn")
    say_as(world.data_dir, BrokerStatus(state="serving", tables=(unread,)))
    place = ("--data-dir", str(world.data_dir), "--json")
    found = json.loads(told("table", "t", *place).output)
    assert found["why"] == "it is odd; it is torn"


def test_a_damaged_table_is_told_as_far_as_it_can_be(world: World) -> None:
    entry = tear(world)
    done = told("table", "t", "--data-dir", str(world.data_dir))
    assert done.code == 1
    assert "path: " in done.output
    assert "table_end" in done.output
    [sentence] = done.errors.splitlines()
    assert sentence.startswith(f"lakelog: {entry} is torn")


def test_a_damaged_table_in_json_is_one_object(world: World) -> None:
    entry = tear(world)
    done = told("table", "t", "--data-dir", str(world.data_dir), "--json")
    assert done.code == 1
    found = json.loads(done.output)
    assert found["problem"].startswith(f"{entry} is torn")
    assert found["partitions"][0]["high_watermark"] == 3
    assert found["partitions"][0]["table_end"] is None


def test_what_cannot_be_compacted_is_told_at_once(world: World) -> None:
    entry = tear(world)
    done = told("compact", "t", "--data-dir", str(world.data_dir), "--timeout", "9999")
    assert (done.code, done.output) == (1, "")
    [sentence] = done.errors.splitlines()
    assert sentence.startswith(f"lakelog: t is stuck: {entry} is torn")


@pytest.mark.parametrize("command", [("table", "t"), ("compact", "t"), ("compactor",)])
def test_what_may_run_beside_an_older_broker_leaves_it_its_catalog(
    world: World, command: tuple[str, ...]
) -> None:
    older = schema.VERSION - 1
    world.catalog.change(partial(take_back, version=older))
    done = told(*command, "--data-dir", str(world.data_dir))
    assert version_of(world.data_dir / "catalog.db") == older
    if command[0] != "table":
        assert done.code == 1
        assert done.errors.startswith(f"lakelog: the catalog has version {older}")


def test_a_table_is_held_and_released(world: World) -> None:
    where = ("--data-dir", str(world.data_dir), "--json")
    found = [
        json.loads(told("table", "t", *words, *where).output)["held_until_ms"]
        for words in ((), ("--hold", "10m"), (), ("--release",), ())
    ]
    assert found[0] is None
    assert found[1] == found[2] > 0
    assert found[3:] == [None, None]


def test_who_holds_a_table_is_answered_once_the_compactor_stands_back(
    world: World,
) -> None:
    """A round that was under way is committed before that."""
    where = ("--data-dir", str(world.data_dir), "--json")
    say(world.data_dir, state="running")
    answers = list[str]()
    asking = threading.Thread(
        target=lambda: answers.append(
            told("table", "t", "--hold", "10m", *where).output
        )
    )
    asking.start()
    wait_until(lambda: held(world))
    asking.join(2)  # for who does not wait
    assert not answers
    say(world.data_dir, state="running", holds={"t": held(world)})
    asking.join()
    assert json.loads(answers[0])["held_until_ms"] == held(world)


def held(world: World) -> int | None:
    """Until when the table is held."""
    now_ms = int(time.time() * 1000)
    found = world.catalog.read(lambda c: holds.load(c, now_ms))
    return max(found.values(), default=None)


@pytest.mark.parametrize("for_", ["0s", "25h", "ten", "5", "-1m"])
def test_a_hold_lasts_a_day_at_most(world: World, for_: str) -> None:
    done = told("table", "t", f"--hold={for_}", "--data-dir", str(world.data_dir))
    assert done.code == 2
    assert "is no time between 1s and 24h" in done.errors
