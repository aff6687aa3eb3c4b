"""A table is held while a statement runs, once the compactor has said that it is."""

import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from jobs.extent import Extents, NotInTime
from jobs.owners import statement
from jobs.owners.statement import POLL_S, held, run_statement
from tests.jobs.world import World
from tests.support.patience import wait_until
from tests.support.saying import say, say_as
from tests.support.tables import Writer

HOUR_MS = 3_600_000


@pytest.fixture
def extents(world: World) -> Iterator[Extents]:
    world.topic("t")
    with closing(Extents(world.data_dir)) as extents:
        yield extents


def until(extents: Extents) -> int | None:
    return extents.of(["t"])[0].held_until_ms


def test_without_a_compactor_nobody_is_waited_for(
    world: World, extents: Extents
) -> None:
    with held(extents, world.data_dir, "t", HOUR_MS):
        assert until(extents)
    assert until(extents) is None


def test_nothing_runs_before_the_compactor_stands_back(
    world: World, extents: Extents
) -> None:
    say(world.data_dir, state="running")
    runs, ends = threading.Event(), threading.Event()

    def hold() -> None:
        mine = Extents(world.data_dir)
        with closing(mine), held(mine, world.data_dir, "t", HOUR_MS):
            runs.set()
            ends.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    wait_until(lambda: until(extents))
    for holds in ({}, {"t": 5}, {"other": until(extents)}):
        say(world.data_dir, state="running", holds=holds)
        assert not runs.is_set()
    say(world.data_dir, state="running", holds={"t": until(extents)})
    wait_until(runs.is_set)
    ends.set()
    thread.join()
    assert until(extents) is None


@pytest.mark.parametrize("state", ["running", "starting"])
def test_a_compactor_that_does_not_answer_is_told(
    world: World, extents: Extents, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    """Its first round may be under way, whatever it said before."""
    say(world.data_dir, state=state)
    monkeypatch.setattr(statement, "SEEN_WITHIN_S", 0.0)
    inside = held(extents, world.data_dir, "t", HOUR_MS)
    with pytest.raises(NotInTime, match="did not stand back"), inside:
        pytest.fail("it was not seen")
    assert until(extents) is None


def test_a_compactor_that_starts_is_waited_for_until_it_has_looked_once(
    world: World, extents: Extents, monkeypatch: pytest.MonkeyPatch
) -> None:
    compactor, waits = world.compactor(), list[float]()
    world.clock.wall_ms = int(time.time() * 1000)  # holds of another time are none

    def wait(seconds: float) -> None:
        assert not waits, "it has looked, and is waited for all the same"
        waits.append(seconds)
        compactor.step()
        say_as(world.data_dir, compactor.status())

    say_as(world.data_dir, compactor.status())
    monkeypatch.setattr("jobs.owners.statement.time.sleep", wait)
    with held(extents, world.data_dir, "t", HOUR_MS):
        assert waits == [POLL_S]


def test_an_owners_own_hold_goes_on(world: World, extents: Extents) -> None:
    extents.hold("t", HOUR_MS)
    with held(extents, world.data_dir, "t", 1_000):
        pass
    assert until(extents)


@pytest.mark.spark
def test_a_directory_that_is_no_absolute_path_leads_to_the_table(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by default: Spark looks for such a path in its warehouse."""
    topic = world.topic("t")
    Writer(str(world.data_dir / "tables"), "t", topic.id.hex()).add(0, 0, 3)
    monkeypatch.chdir(world.data_dir.parent)
    count = "SELECT count(*) AS n FROM t"
    found = run_statement(Path(world.data_dir.name), "t", count, HOUR_MS)
    assert found == [{"n": 3}]
