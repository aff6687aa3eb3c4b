"""New segment files are asked for by number, and whoever asked sees that it is done."""

from broker.catalog import renewals
from broker.catalog.catalog import Catalog


def ask(catalog: Catalog) -> int:
    return catalog.change(lambda c: renewals.ask(c, 1))


def done(catalog: Catalog, number: int) -> None:
    catalog.change(lambda c: renewals.done(c, number, 2))


def is_done(catalog: Catalog, number: int) -> bool:
    return catalog.read(lambda c: renewals.is_done(c, number))


def test_nothing_is_pending_until_somebody_asks(catalog: Catalog) -> None:
    assert catalog.read(renewals.pending) is None
    number = ask(catalog)
    assert catalog.read(renewals.pending) == number
    assert not is_done(catalog, number)
    done(catalog, number)
    assert catalog.read(renewals.pending) is None
    assert is_done(catalog, number)


def test_what_was_done_for_an_earlier_request_does_not_answer_a_later_one(
    catalog: Catalog,
) -> None:
    first, second = ask(catalog), ask(catalog)
    done(catalog, first)
    assert is_done(catalog, first)
    assert not is_done(catalog, second)
    assert catalog.read(renewals.pending) == second
    done(catalog, second)
    done(catalog, first)
    assert is_done(catalog, second)
