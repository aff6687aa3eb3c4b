"""One row of metadata per group."""

from broker.catalog import groups
from broker.catalog.catalog import Catalog


def test_the_last_value_counts_and_a_deleted_group_is_gone(catalog: Catalog) -> None:
    for group_id, value in (("g", "1"), ("g\0", "2"), ("g", "3"), ("h", "4")):
        catalog.change(lambda c, g=group_id, v=value: groups.store(c, g, v))
    assert catalog.read(groups.load) == {"g": "3", "g\0": "2", "h": "4"}
    catalog.change(lambda c: groups.delete(c, "g"))
    catalog.change(lambda c: groups.delete(c, "nobody"))
    assert catalog.read(groups.load) == {"g\0": "2", "h": "4"}
