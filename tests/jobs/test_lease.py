"""One compactor at a time; the next takes over when the first lets go or is gone."""

import sqlite3
from contextlib import closing
from pathlib import Path

from broker.catalog.catalog import Catalog
from jobs.lease import TTL_MS, LeaseKeeper
from tests.support.clock import ManualClock


def test_one_holds_it_until_it_lets_go(tmp_path: Path) -> None:
    clock = ManualClock()
    with Catalog.open(tmp_path / "catalog.db") as catalog:
        one = LeaseKeeper(catalog, "one", clock)
        two = LeaseKeeper(catalog, "two", clock)
        one.start()
        two.start()
        assert (one.held, two.held) == (True, False)
        one.stop()
        two._attempt()
        assert (one.held, two.held) == (False, True)
        two.stop()


def test_a_locked_catalog_does_not_end_the_keeper(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    with Catalog.open(path) as catalog, closing(sqlite3.connect(path)) as stopped:
        stopped.execute("BEGIN IMMEDIATE")
        one = LeaseKeeper(catalog, "one", ManualClock())
        one._attempt()
        assert not one.held
        stopped.rollback()
        one._attempt()
        assert one.held


def test_a_holder_that_cannot_renew_knows_that_it_lost_it(tmp_path: Path) -> None:
    clock = ManualClock()
    with Catalog.open(tmp_path / "catalog.db") as catalog:
        one, two = (LeaseKeeper(catalog, name, clock) for name in ("one", "two"))
        one._attempt()
        clock.advance(TTL_MS)
        assert not one.held
        two._attempt()
        assert two.held
        one._attempt()
        assert not one.held


def test_a_clock_that_is_set_back_keeps_no_dead_holder(tmp_path: Path) -> None:
    """Its lease would else expire when the clock comes back to where it was."""
    clock = ManualClock()
    with Catalog.open(tmp_path / "catalog.db") as catalog:
        LeaseKeeper(catalog, "killed", clock)._attempt()
        clock.wall_ms -= 3_600_000
        clock.advance(TTL_MS)
        two = LeaseKeeper(catalog, "two", clock)
        two._attempt()
        assert two.held
