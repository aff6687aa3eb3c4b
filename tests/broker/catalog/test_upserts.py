"""Insert, or update what is there."""

from sqlalchemy import select

from broker.catalog.catalog import Catalog
from broker.catalog.schema import counters
from broker.catalog.upserts import upsert


def test_rows_are_inserted_or_written_over(catalog: Catalog) -> None:
    def twice(connection):  # type: ignore[no-untyped-def]
        upsert(
            connection, counters, [{"name": "a", "next": 1}, {"name": "b", "next": 2}]
        )
        upsert(
            connection, counters, [{"name": "b", "next": 3}, {"name": "c", "next": 4}]
        )
        upsert(connection, counters, [])
        return connection.execute(select(counters).order_by(counters.c.name)).all()

    assert catalog.change(twice) == [("a", 1), ("b", 3), ("c", 4)]
