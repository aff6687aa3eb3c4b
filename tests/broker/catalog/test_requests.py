"""Flush requests: asked, seen by the compactor, done."""

from broker.catalog import requests
from broker.catalog.catalog import Catalog


def test_a_request_waits_until_it_is_done(catalog: Catalog) -> None:
    some = catalog.change(lambda c: requests.ask(c, ["b", "a", "b"], 100))
    everything = catalog.change(lambda c: requests.ask(c, None, 200))
    assert catalog.read(requests.pending) == [
        (some, ("a", "b"), 100),
        (everything, None, 200),
    ]
    catalog.change(lambda c: requests.done(c, some, 300))
    assert [request.id for request in catalog.read(requests.pending)] == [everything]


def test_a_request_is_found_done_or_not_until_it_is_forgotten(
    catalog: Catalog,
) -> None:
    some = catalog.change(lambda c: requests.ask(c, ["a"], 100))
    everything = catalog.change(lambda c: requests.ask(c, None, 200))
    catalog.change(lambda c: requests.done(c, some, 300))
    assert catalog.read(lambda c: requests.find(c, some)) == (some, ("a",), 100, 300)
    found = catalog.read(lambda c: requests.find(c, everything))
    assert found == (everything, None, 200, None)
    catalog.change(lambda c: requests.sweep(c, 150))
    assert catalog.read(lambda c: requests.find(c, some)) is None


def test_asking_for_nothing_is_not_asking_for_all(catalog: Catalog) -> None:
    catalog.change(lambda c: requests.ask(c, [], 100))
    assert catalog.read(requests.pending)[0].topics == ()


def test_old_requests_are_swept_and_their_numbers_not_used_again(
    catalog: Catalog,
) -> None:
    old = catalog.change(lambda c: requests.ask(c, None, 100))
    assert catalog.change(lambda c: requests.sweep(c, 100)) == 0
    assert catalog.change(lambda c: requests.sweep(c, 101)) == 1
    assert catalog.read(requests.pending) == []
    assert catalog.change(lambda c: requests.ask(c, None, 200)) > old


def test_who_asks_sweeps_what_was_asked_a_day_ago(catalog: Catalog) -> None:
    old = catalog.change(lambda c: requests.ask(c, None, 100))
    young = catalog.change(lambda c: requests.ask(c, None, 101))
    asked = catalog.change(lambda c: requests.ask(c, None, requests.KEPT_MS + 101))
    waiting = [request.id for request in catalog.read(requests.pending)]
    assert waiting == [young, asked]
    assert old not in waiting
