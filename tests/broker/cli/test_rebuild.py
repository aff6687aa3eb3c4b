"""``lakelog rebuild`` as a person sees it."""

import json

import pytest

from tests.broker.runtime.rebuilding.world import lose_catalog, transactional
from tests.jobs.world import World
from tests.support.batches import Record
from tests.support.process import told


@pytest.fixture
def data_dir(tmp_path):
    world = World(tmp_path)
    topic = world.topic("t", 2, {"retention.ms": "60000"})
    world.produce(topic, [Record(b"k", b"v")] * 3)
    world.flush(world.compactor())
    transactional(world, topic, 3, producer=7)
    world.close()
    lose_catalog(tmp_path)
    return tmp_path


def test_it_says_what_it_makes_and_what_is_lost(data_dir):
    words = ("rebuild", "--data-dir", str(data_dir))
    done = told(*words, "--dry-run", "--json")
    assert (done.code, done.errors) == (0, "")
    said = json.loads(done.output)
    [topic] = said["topics"]
    assert topic | {"id": ""} == {
        "topic": "t", "id": "", "number": 1, "partitions": 2, "deleted": False,
        "configs": {"retention.ms": "60000"}, "starts": {"0": 0, "1": 0},
        "ends": {"0": 4, "1": 0},
    }  # fmt: skip
    assert not said["made"]
    assert "t-0 from offset 3 is aborted when the broker starts" in said["remarks"][0]
    assert "lakelog group reset-offsets" in said["lost"][0]
    done = told(*words)
    assert (done.code, done.errors) == (0, "")
    assert done.output.endswith("the catalog is made again\n")
    again = told(*words)
    assert again.code == 1
    assert "of 1 topics: nothing is to be made again" in again.errors


def test_a_table_that_cannot_be_read_is_named_and_the_code_is_1(data_dir):
    entry = data_dir / "tables" / "t" / "_delta_log" / f"{1:020d}.json"
    entry.write_bytes(b"x")
    (entry.parent / f"{2:020d}.json").write_text("{}")
    done = told("rebuild", "--data-dir", str(data_dir))
    assert done.code == 1
    assert "PROBLEM the table" in done.output
    assert done.output.endswith("the catalog is made again\n")


@pytest.mark.parametrize(
    "words",
    [("--topic", "7"), ("--topic", "x=t"), ("--topic", "1=t", "--topic", "2=t")],
)
def test_an_answer_that_says_nothing_is_bad_usage(data_dir, words):
    assert told("rebuild", "--data-dir", str(data_dir), *words).code == 2


@pytest.mark.parametrize(
    "point",
    ["rebuild.filled", "rebuild.ready", "rebuild.part_aside", "rebuild.aside"],
)
def test_who_is_killed_in_the_middle_leaves_no_half(data_dir, point, monkeypatch):
    """At each step, one after the other: `tests.crash.test_rebuild_kills`."""
    lost = {"catalog.db": b"damaged", "catalog.db-wal": b"its log"}
    for name, content in lost.items():
        (data_dir / name).write_bytes(content)
    words = ("rebuild", "--data-dir", str(data_dir))
    with monkeypatch.context() as patch:
        patch.setenv("LAKELOG_FAILPOINTS", point)
        assert told(*words).code == -9
    assert told(*words).code == 0
    assert told(*words).code == 1
    [kept] = data_dir.glob("catalog.db.lost-*[0-9]")
    assert kept.read_bytes() == b"damaged"
    assert kept.with_name(f"{kept.name}-wal").read_bytes() == b"its log"
    names = {path.name for path in data_dir.glob("catalog.db*")}
    assert names == {"catalog.db", kept.name, f"{kept.name}-wal"}
