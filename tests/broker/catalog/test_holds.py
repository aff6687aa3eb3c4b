"""A table is held until the last who asked for it is done, and a day at most."""

from broker.catalog import holds
from broker.catalog.catalog import Catalog

ONE, OTHER = "01" * 16, "02" * 16


def held(catalog: Catalog, now_ms: int) -> dict[str, int]:
    return catalog.read(lambda c: holds.load(c, now_ms))


def hold(
    catalog: Catalog, topic: str, now_ms: int, for_ms: int, by: str = holds.OWNER
) -> int:
    return catalog.change(lambda c: holds.hold(c, topic, by, now_ms, for_ms))


def test_a_hold_lasts_as_long_as_was_said(catalog: Catalog) -> None:
    assert held(catalog, 0) == {}
    assert hold(catalog, ONE, 10, 100) == 110
    assert held(catalog, 109) == {ONE: 110}
    assert held(catalog, 110) == {}


def test_who_asks_again_says_how_long_it_lasts_now(catalog: Catalog) -> None:
    hold(catalog, ONE, 0, 100)
    assert hold(catalog, ONE, 50, 10) == 60
    assert held(catalog, 55) == {ONE: 60}


def test_the_last_of_several_ends_it(catalog: Catalog) -> None:
    hold(catalog, ONE, 0, 100)
    hold(catalog, ONE, 0, 200, "sql-7")
    hold(catalog, OTHER, 0, 50)
    assert held(catalog, 0) == {ONE: 200, OTHER: 50}
    assert catalog.change(lambda c: holds.release(c, ONE, "sql-7")) == 1
    assert held(catalog, 0) == {ONE: 100, OTHER: 50}
    assert catalog.change(lambda c: holds.release(c, ONE)) == 1
    assert held(catalog, 0) == {OTHER: 50}
    assert catalog.change(lambda c: holds.release(c, ONE)) == 0


def test_what_one_holds_ends_of_all_tables_and_nobody_elses(catalog: Catalog) -> None:
    hold(catalog, ONE, 0, 100)
    hold(catalog, ONE, 0, 200, "sql-7")
    hold(catalog, OTHER, 0, 50, "sql-7")
    catalog.change(lambda c: holds.release_all(c, "sql-7"))
    assert held(catalog, 0) == {ONE: 100}
    catalog.change(lambda c: holds.release_all(c, "hold"))
    assert held(catalog, 0) == {ONE: 100}


def test_a_clock_that_was_set_back_holds_nothing_for_ever(catalog: Catalog) -> None:
    hold(catalog, ONE, holds.MAX_MS, 10)
    assert held(catalog, 5) == {}
    assert held(catalog, holds.MAX_MS) == {ONE: holds.MAX_MS + 10}
