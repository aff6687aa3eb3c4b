"""Offsets of open transactions: the group's when they are committed, else nobody's."""

from functools import partial

import pytest

from broker.catalog import offsets, pending_offsets
from broker.catalog.catalog import Catalog
from broker.catalog.offsets import CommittedOffset

ONE, TWO = CommittedOffset(1, 4, "here", 1_000), CommittedOffset(2**62)


def pending(catalog: Catalog, group: str, producer: int, **found) -> None:
    given = {(1, int(name[1:])): offset for name, offset in found.items()}
    catalog.change(lambda c: pending_offsets.add(c, group, producer, given))


def test_what_is_pending_is_by_group_and_producer_and_the_last_counts(catalog) -> None:
    pending(catalog, "g", 7, p0=ONE, p1=ONE)
    pending(catalog, "g", 7, p1=TWO)
    pending(catalog, "g", 8, p0=TWO)
    pending(catalog, "g\0", 7, p0=ONE)
    assert catalog.read(pending_offsets.load) == {
        "g": {7: {(1, 0): ONE, (1, 1): TWO}, 8: {(1, 0): TWO}},
        "g\0": {7: {(1, 0): ONE}},
    }
    assert not catalog.read(offsets.load)


def test_a_commit_makes_it_the_groups_and_an_abort_nobodys(catalog: Catalog) -> None:
    for producer in (7, 8, 9):
        pending(catalog, "g", producer, **{f"p{producer}": ONE})
    catalog.change(lambda c: pending_offsets.end(c, "g", 7, commits=True))
    catalog.change(lambda c: pending_offsets.end(c, "g", 8, commits=False))
    catalog.change(lambda c: pending_offsets.end(c, "h", 9, commits=True))
    assert catalog.read(offsets.load) == {"g": {(1, 7): ONE}}
    assert catalog.read(pending_offsets.load) == {"g": {9: {(1, 9): ONE}}}


def test_some_of_it_is_decided_and_the_rest_is_left(catalog: Catalog) -> None:
    for producer in (7, 8):
        pending(catalog, "g", producer, p0=ONE, p1=ONE, p2=TWO)
    pending(catalog, "h", 7, p0=ONE)
    first, second, none = {(1, 0): ONE}, {(1, 1): ONE}, {}
    for some, commits in ((first, True), (second, False), (none, True)):
        catalog.change(
            lambda c, some=some, commits=commits: pending_offsets.end_some(
                c, "g", 7, some, commits=commits
            )
        )
    assert catalog.read(offsets.load) == {"g": {(1, 0): ONE}}
    assert catalog.read(pending_offsets.load) == {
        "g": {7: {(1, 2): TWO}, 8: {(1, 0): ONE, (1, 1): ONE, (1, 2): TWO}},
        "h": {7: {(1, 0): ONE}},
    }


def test_an_end_that_comes_again_does_nothing(catalog: Catalog) -> None:
    pending(catalog, "g", 7, p0=ONE)
    catalog.change(lambda c: pending_offsets.end(c, "g", 7, commits=True))
    catalog.change(lambda c: offsets.commit(c, "g", {(1, 0): TWO}))
    catalog.change(lambda c: pending_offsets.end(c, "g", 7, commits=True))
    assert catalog.read(offsets.load) == {"g": {(1, 0): TWO}}


def test_what_is_superseded_is_forgotten_of_every_producer(catalog: Catalog) -> None:
    for producer in (7, 8):
        pending(catalog, "g", producer, p0=ONE, p1=ONE)
    pending(catalog, "h", 7, p0=ONE)
    catalog.change(lambda c: pending_offsets.supersede(c, "g", [(1, 0), (9, 9)]))
    catalog.change(lambda c: pending_offsets.supersede(c, "g", []))
    assert catalog.read(pending_offsets.load) == {
        "g": {7: {(1, 1): ONE}, 8: {(1, 1): ONE}},
        "h": {7: {(1, 0): ONE}},
    }
    catalog.change(lambda c: pending_offsets.delete_group(c, "g"))
    assert set(catalog.read(pending_offsets.load)) == {"h"}


@pytest.mark.parametrize("some", [None, {(1, 0): ONE}])
def test_what_is_older_than_a_commit_is_forgotten_of_every_other_producer(
    catalog: Catalog, some
) -> None:
    older, same = ONE._replace(committed_ms=999), ONE._replace(offset=7)
    pending(catalog, "g", 7, p0=ONE)
    pending(catalog, "g", 8, p0=older, p1=older)
    pending(catalog, "g", 9, p0=same)
    pending(catalog, "h", 8, p0=older)
    end = pending_offsets.end
    if some is not None:
        end = partial(pending_offsets.end_some, some=some)
    others = tuple((one, (1, 0), ONE.committed_ms) for one in (8, 9, 10))
    catalog.change(lambda c: end(c, "g", 7, commits=True, older=others))
    assert catalog.read(offsets.load) == {"g": {(1, 0): ONE}}
    assert catalog.read(pending_offsets.load) == {
        "g": {8: {(1, 1): older}, 9: {(1, 0): same}},
        "h": {8: {(1, 0): older}},
    }
