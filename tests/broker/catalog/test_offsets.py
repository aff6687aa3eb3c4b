"""Committed offsets in the catalog, by group and partition."""

from broker.catalog import offsets
from broker.catalog.catalog import Catalog
from broker.catalog.offsets import CommittedOffset


def test_the_last_commit_counts(catalog: Catalog) -> None:
    first = CommittedOffset(5, 0, "where I was", 1_000, 2_000)
    other = CommittedOffset(2**62)
    catalog.change(lambda c: offsets.commit(c, "g", {(1, 0): first, (1, 1): other}))
    assert catalog.read(offsets.load) == {"g": {(1, 0): first, (1, 1): other}}
    again = CommittedOffset(3, -1, "", 1_500)
    catalog.change(lambda c: offsets.commit(c, "g", {(1, 0): again}))
    assert catalog.read(offsets.load) == {"g": {(1, 0): again, (1, 1): other}}


def test_groups_are_apart_whatever_their_names(catalog: Catalog) -> None:
    names = ["g", "G", "", "g ", "g\0", "\N{SNOWMAN}' or 1=1; --"]
    for at, name in enumerate(names):
        catalog.change(
            lambda c, n=name, o=at: offsets.commit(c, n, {(1, 0): CommittedOffset(o)})
        )
    loaded = catalog.read(offsets.load)
    assert [loaded[name][1, 0].offset for name in names] == list(range(len(names)))


def test_deleting_takes_what_is_named(catalog: Catalog) -> None:
    stored = CommittedOffset(1)
    for group in ("g", "h"):
        catalog.change(
            lambda c, g=group: offsets.commit(
                c, g, {(1, 0): stored, (1, 1): stored, (2, 0): stored}
            )
        )
    catalog.change(lambda c: offsets.delete(c, "g", [(1, 1), (2, 0), (9, 9)]))
    catalog.change(lambda c: offsets.delete(c, "g", []))
    assert set(catalog.read(offsets.load)["g"]) == {(1, 0)}
    catalog.change(lambda c: offsets.delete_group(c, "g"))
    assert set(catalog.read(offsets.load)) == {"h"}
