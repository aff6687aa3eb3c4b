"""New segment files on request: begun once, and answered when no old one is left."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from broker.catalog import renewals
from broker.catalog.catalog import Catalog
from broker.runtime.process.segment_renewal import LOOK_MS, SegmentRenewal
from tests.support.clock import ManualClock


@dataclass
class ALog:
    """The write-ahead log, as far as its files are asked for."""

    renewed: int = 0
    to_renew: frozenset[int] = frozenset()

    def renew(self) -> None:
        self.renewed += 1


@dataclass
class Scene:
    catalog: Catalog
    wal: ALog = field(default_factory=ALog)
    clock: ManualClock = field(default_factory=ManualClock)
    evicted: list[frozenset[int]] = field(default_factory=list)
    forgotten: int = 0

    def __post_init__(self) -> None:
        self.renewal = SegmentRenewal(
            self.wal, self.catalog, self.clock,
            evict=self.evicted.append, forget=self.forget,
        )  # fmt: skip

    def forget(self) -> object:
        self.forgotten += 1
        done = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done

    def ask(self) -> int:
        return self.catalog.change(lambda c: renewals.ask(c, 1))

    def tick(self, times: int = 1) -> None:
        for _ in range(times):
            self.clock.advance(LOOK_MS)
            asyncio.run(self.renewal.tick())

    def is_done(self, number: int) -> bool:
        return self.catalog.read(lambda c: renewals.is_done(c, number))


@pytest.fixture
def scene(tmp_path: Path):
    with Catalog.open(tmp_path / "catalog.db") as catalog:
        yield Scene(catalog)


def test_nothing_is_done_unasked(scene: Scene) -> None:
    scene.tick(3)
    assert (scene.wal.renewed, scene.forgotten, scene.evicted) == (0, 0, [])


def test_it_is_answered_once_no_old_file_was_there_in_two_looks(scene: Scene) -> None:
    number = scene.ask()
    scene.wal.to_renew = frozenset({2, 4})
    scene.tick(3)
    assert (scene.wal.renewed, scene.evicted[-1]) == (1, {2, 4})
    assert not scene.is_done(number)
    scene.wal.to_renew = frozenset()
    scene.tick()
    scene.wal.to_renew = frozenset({-1})  # one was between two hands
    scene.tick()
    scene.wal.to_renew = frozenset()
    scene.tick()
    assert not scene.is_done(number)
    assert scene.forgotten == 0
    scene.tick()
    assert scene.is_done(number)
    assert (scene.wal.renewed, scene.forgotten) == (1, 1)
    scene.tick(2)
    assert scene.forgotten == 1


def test_who_asks_meanwhile_has_it_begun_anew(scene: Scene) -> None:
    scene.ask()
    scene.wal.to_renew = frozenset({2})
    scene.tick()
    later = scene.ask()
    scene.tick()
    assert scene.wal.renewed == 2
    scene.wal.to_renew = frozenset()
    scene.tick(2)
    assert scene.is_done(later)


def test_the_catalog_is_asked_once_a_second_while_nobody_wants_anything(
    scene: Scene,
) -> None:
    scene.tick()
    number = scene.ask()
    asyncio.run(scene.renewal.tick())
    assert scene.wal.renewed == 0
    scene.tick(2)
    assert scene.is_done(number)
