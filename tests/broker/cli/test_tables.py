"""What the tables' commands print of a data directory, without running parts."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from broker.catalog import schema
from lakehouse.delta_log import entry_path
from tests.jobs.world import World
from tests.support.batches import Record
from tests.support.old_catalogs import take_back, version_of
from tests.support.process import told


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
    assert found["partitions"][0]["table_end"] == 3


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
