"""A lost catalog is made again, by whoever was killed at every step of doing so."""

from pathlib import Path

import pytest

from tests.crash.house import HITS, House
from tests.crash.workload import (
    Load,
    judge,
    read_everything,
    running,
    tell,
    wait_for,
)
from tests.support.process import told

pytestmark = [pytest.mark.crash, pytest.mark.shared_out("kills of a broker", 6)]

POINTS = (
    "rebuild.begun", "rebuild.planned", "rebuild.filled", "rebuild.staged",
    "rebuild.synced", "rebuild.ready", "rebuild.part_aside", "rebuild.part_aside",
    "rebuild.aside", "rebuild.placed",
)  # fmt: skip
"""In the order in which they are passed; both files of the lost one move aside."""
LOST = {"catalog.db": b"damaged", "catalog.db-wal": b"its log"}


def lose_catalog(data_dir: Path) -> None:
    """What is left of it says nothing."""
    for path in data_dir.glob("catalog.db*"):
        path.unlink()
    for name, content in LOST.items():
        (data_dir / name).write_bytes(content)


def kill_at_each_point(house: House, patch: pytest.MonkeyPatch) -> None:
    words = ("--data-dir", str(house.data_dir))
    for point in POINTS:
        with patch.context() as armed:
            armed.setenv("LAKELOG_FAILPOINTS", point)
            assert told("rebuild", *words).code == -9, point
        if point in {"rebuild.synced", "rebuild.aside"}:
            refused = told("broker", *words, "--listener", "127.0.0.1:0")
            assert refused.code == 1, "a broker took what was half made"
    again = told("rebuild", *words)
    assert (again.code, "nothing is to be made again" in again.errors) == (1, True)
    kept = max(house.data_dir.glob("catalog.db.lost-*[0-9]"))
    for name, content in LOST.items():
        aside = kept.with_name(name.replace("catalog.db", kept.name))
        assert aside.read_bytes() == content


def wait_for_more(load: Load) -> None:
    before = len(load.acknowledged)
    wait_for(lambda: len(load.acknowledged) > before + 300)


def test_a_rebuild_that_is_killed_at_each_of_its_steps_is_made_by_the_next(
    build, monkeypatch
):
    """Records stand in the table, or in the log alone, and go on coming from a producer
    that does not notice."""
    house = build().start()
    bootstrap = house.broker.bootstrap
    house.compactor.start()
    load = house.load("p", pause_s=0.01)
    with running(load):
        for _ in range(HITS):
            wait_for_more(load)
            house.flush()
            house.compactor.kill()
            wait_for_more(load)
            house.broker.kill()
            lose_catalog(house.data_dir)
            kill_at_each_point(house, monkeypatch)
            house.broker.start()
            house.compactor.start()
    found = read_everything(bootstrap, "t", house.partitions)
    judge([load], found)
    house.flush()
    assert house.in_table() == found
    house.check()
    tell("rebuild", len(POINTS) * HITS, [load])
