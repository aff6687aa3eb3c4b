"""One compactor at a time; the next takes over when the first lets go or is gone."""

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
