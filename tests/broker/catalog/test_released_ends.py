"""Where released records end is kept, and never goes back."""

from broker.catalog import released_ends, topics
from broker.catalog.catalog import Catalog


def test_the_greatest_end_of_each_partition_is_kept(catalog: Catalog) -> None:
    for ends in ({(1, 0): 5, (1, 1): 7}, {}, {(1, 0): 4, (1, 1): 8, (2, 0): 1}):
        catalog.change(lambda c, ends=ends: released_ends.raise_to(c, ends))
    assert catalog.read(released_ends.load) == {(1, 0): 5, (1, 1): 8, (2, 0): 1}


def test_they_are_forgotten_with_their_topic_alone(catalog: Catalog) -> None:
    for name in ("one", "two"):
        made = catalog.change(
            lambda c, name=name: topics.create(
                c, name, name.encode() * 5 + b"x", 1, {}, 0
            )
        )
        catalog.change(lambda c, n=made.number: released_ends.raise_to(c, {(n, 0): 9}))
    catalog.change(lambda c: topics.delete(c, made.number, 1))
    assert len(catalog.read(released_ends.load)) == 2
    catalog.change(lambda c: topics.forget(c, made.number))
    assert catalog.read(released_ends.load) == {(made.number - 1, 0): 9}
