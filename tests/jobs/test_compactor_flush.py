"""A compactor leaves what trickles until its topic's bound, unless somebody asks."""

import pytest

from broker.catalog import requests
from jobs.compactor import Compactor
from jobs.rows import Failed, FileTask, Written
from jobs.tables import Tables
from lakehouse.watching.log_looks import RECENT_MS
from tests.jobs.world import FLUSH_MS, World, alter_configs, some

BOUND_MS = 60_000


def advance(world: World, compactor: Compactor, ms: int) -> None:
    world.clock.advance(ms)
    compactor.step()


def failing(tasks: list[list[FileTask]]) -> list[list[Written | Failed]]:
    return [[Failed(one.path, "no", stale=False) for one in task] for task in tasks]


@pytest.mark.parametrize(("own", "bound_ms"), [({}, BOUND_MS), ({"own": 9_000}, 9_000)])
def test_what_trickles_waits_for_its_bound_unless_somebody_asks(
    world: World, own: dict[str, int], bound_ms: int
) -> None:
    topic = world.topic("t")
    if own:
        configs = {"lake.flush.max.ms": str(own["own"])}
        alter_configs(world, topic, configs)
    compactor = world.compactor(flush_max_ms=BOUND_MS)
    world.produce(topic, some(1))
    compactor.step()
    advance(world, compactor, FLUSH_MS)
    assert len(world.rows(topic)) == 1  # it was not known to trickle
    world.produce(topic, some(1))
    compactor.step()
    advance(world, compactor, bound_ms - 1)
    assert len(world.rows(topic)) == 1
    advance(world, compactor, 1)
    assert len(world.rows(topic)) == 2
    assert compactor.status().niceness > 0  # it is not late by that
    world.produce(topic, some(1))
    world.catalog.change(lambda c: requests.ask(c, ["t"], 1))
    compactor.step()
    world.check_rows()


def test_what_holds_segments_does_not_wait(world: World) -> None:
    trickling, busy = world.topic("trickling"), world.topic("busy")
    compactor = world.compactor(flush_max_ms=BOUND_MS)
    for _ in range(2):  # now it is known to trickle
        world.produce(trickling, some(1))
        compactor.step()
        advance(world, compactor, FLUSH_MS)
    assert len(world.rows(trickling)) == 1
    for _ in range(8):
        world.produce(busy, some(100))
        world.roll()
    world.produce(busy, some(100))
    compactor.step()
    assert len(world.rows(trickling)) == 2


@pytest.mark.parametrize("configs", [{}, {"lake.retention.ms": "-1"}])
def test_whoever_asks_is_answered_when_the_log_let_the_segment_go_at_once(
    world: World, configs: dict[str, str]
) -> None:
    topic, compactor = world.topic("t", configs=configs), world.compactor()
    world.produce(topic, some(5))
    world.catalog.change(lambda c: requests.ask(c, ["t"], 1))
    compactor.step()
    world.check_rows()
    world.release()
    compactor.step()
    assert world.catalog.read(requests.pending) == []


def test_a_table_that_is_waited_for_and_at_rest_is_not_read_in_each_step(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, compactor = world.topic("t"), world.compactor(spread=failing)
    world.produce(topic, some(5))
    world.catalog.change(lambda c: requests.ask(c, ["t"], 1))
    compactor.step()
    world.release()  # as if its records were in the table: nobody has them now
    for _ in range(2):
        advance(world, compactor, RECENT_MS)
    read = list[str]()
    monkeypatch.setattr(Tables, "_present", lambda _, t: read.append(t.name))
    for _ in range(50):
        advance(world, compactor, 200)
    assert len(world.catalog.read(requests.pending)) == 1
    assert len(read) <= 1, "once a minute"
