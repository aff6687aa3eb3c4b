"""Insert, or update what is there."""

from typing import Any

import pytest
from sqlalchemy import Connection, Table, select
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from broker.catalog import upserts
from broker.catalog.catalog import Catalog
from broker.catalog.schema import counters, group_metadata, group_offsets
from broker.catalog.upserts import upsert
from broker.protocol.errors import KafkaError


@pytest.fixture(params=["by the driver", "by SQLAlchemy"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "by SQLAlchemy":
        monkeypatch.setattr(upserts, "_by_driver", lambda *_: False)
    return str(request.param)


@pytest.mark.usefixtures("way")
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


@pytest.mark.usefixtures("way")
def test_what_is_greater_already_is_not_written_over(catalog: Catalog) -> None:
    def twice(connection: Connection) -> list[tuple[Any, ...]]:
        for numbers in ((5, 5, 5), (4, 5, 6)):
            rows = [{"name": n, "next": i} for n, i in zip("abc", numbers, strict=True)]
            upsert(connection, counters, rows, if_greater=counters.c.next)
        found = connection.execute(select(counters).order_by(counters.c.name))
        return [tuple(row) for row in found]

    assert catalog.change(twice) == [("a", 5), ("b", 5), ("c", 6)]


def offset_row(**more: Any) -> dict[str, Any]:
    row = {
        "group_id": "grüße", "topic_number": 2**40, "partition": 0,
        "committed_offset": 2**62, "leader_epoch": -1, "metadata": "o'k\0?",
        "committed_ms": 1, "expires_ms": -1,
    }  # fmt: skip
    return row | more


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(
    ("table", "row"),
    [
        (group_offsets, offset_row()),
        (group_metadata, {"group_id": "g", "value": b"\0\xff"}),
    ],
)
def test_values_come_back_as_they_went_in(
    catalog: Catalog, table: Table, row: dict[str, Any]
) -> None:
    def store(connection: Connection) -> list[dict[str, Any]]:
        upsert(connection, table, [row])
        return [dict(one) for one in connection.execute(select(table)).mappings()]

    assert catalog.change(store) == [row]


@pytest.mark.usefixtures("way")
def test_a_row_that_is_refused_is_refused_in_sqlalchemys_words(
    catalog: Catalog,
) -> None:
    def refused(connection: Connection) -> type[BaseException] | None:
        with pytest.raises(SQLAlchemyError) as raised:
            upsert(connection, group_offsets, [offset_row(committed_offset=None)])
        return type(raised.value)

    assert catalog.change(refused) is IntegrityError


def test_what_was_refused_is_not_executed_again(catalog: Catalog) -> None:
    executed: list[str] = []

    def refused(connection: Connection) -> None:
        raw: Any = connection.connection.driver_connection
        raw.set_trace_callback(executed.append)
        try:
            upsert(connection, group_offsets, [offset_row(committed_offset=None)])
        finally:
            raw.set_trace_callback(None)

    with pytest.raises(KafkaError):
        catalog.change(refused)
    assert len([text for text in executed if text.startswith("INSERT")]) == 1


def test_offsets_go_by_the_driver(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upserts, "_statement", None)  # asked for the text alone

    def store(connection: Connection) -> None:
        upsert(connection, group_offsets, [offset_row()])

    upserts._spelt.pop((group_offsets, "sqlite", None), None)
    with pytest.raises(TypeError):
        catalog.change(store)
    monkeypatch.undo()
    catalog.change(store)
    monkeypatch.setattr(upserts, "_statement", None)
    catalog.change(store)
