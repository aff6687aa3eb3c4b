"""One row for each transactional id."""

from broker.catalog import transactions
from broker.catalog.catalog import Catalog


def test_the_last_value_counts_and_a_deleted_id_is_gone(catalog: Catalog) -> None:
    for name, value in (("t", "1"), ("t\0", "2"), ("t", "3"), ("u", "4")):
        catalog.change(lambda c, n=name, v=value: transactions.store(c, n, v))
    assert catalog.read(transactions.load) == {"t": "3", "t\0": "2", "u": "4"}
    catalog.change(lambda c: transactions.delete(c, "t"))
    catalog.change(lambda c: transactions.delete(c, "nobody"))
    assert catalog.read(transactions.load) == {"t\0": "2", "u": "4"}
