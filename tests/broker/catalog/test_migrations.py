"""An old catalog walks the steps to the new version, all of them or none."""

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, inspect

from broker.catalog import groups, migrations, topics
from broker.catalog.catalog import Catalog
from broker.catalog.engine import WRITING, open_engine
from broker.catalog.errors import CatalogTooNew


def add_colour(connection: Connection) -> None:
    connection.exec_driver_sql("alter table topics add column colour text")


def paint(connection: Connection) -> None:
    connection.exec_driver_sql("update topics set colour = 'green'")


def interrupted(connection: Connection) -> None:
    raise InterruptedError


def old_catalog(path: Path) -> None:
    """One of version 1, with a topic."""
    with Catalog.open(path) as catalog:
        catalog.change(lambda c: topics.create(c, "t", bytes(16), 1, {}, 0))
        catalog.change(_take_back)


def _take_back(connection: Connection) -> None:
    connection.exec_driver_sql("drop table group_metadata")
    connection.exec_driver_sql(
        "update about set value = '1' where key = 'schema_version'"
    )


def tables(path: Path) -> dict[str, Any]:
    """Everything that a table is, by its name."""
    engine = open_engine(path)
    with engine.connect() as connection:
        inspector = inspect(connection)
        found = {
            name: (
                [(c["name"], str(c["type"]), c["nullable"]) for c in columns],
                inspector.get_pk_constraint(name),
                [(i["name"], i["unique"]) for i in inspector.get_indexes(name)],
            )
            for name in inspector.get_table_names()
            for columns in [inspector.get_columns(name)]
        }
    engine.dispose()
    return found


def test_an_old_catalog_becomes_what_a_new_one_is(tmp_path: Path) -> None:
    old_catalog(tmp_path / "old.db")
    Catalog.open(tmp_path / "new.db").close()
    assert tables(tmp_path / "old.db") != tables(tmp_path / "new.db")
    with Catalog.open(tmp_path / "old.db") as catalog:
        assert [topic.name for topic in catalog.read(topics.load)] == ["t"]
        catalog.change(lambda c: groups.store(c, "g", "value"))
    assert tables(tmp_path / "old.db") == tables(tmp_path / "new.db")


def migrate(path: Path, *steps: migrations.Step) -> None:
    engine = open_engine(path)
    try:
        writing = engine.execution_options(**{WRITING: True})
        with writing.begin() as connection:
            migrations.prepare(
                connection, "unused", steps=steps, supported=len(steps) + 1
            )
    finally:
        engine.dispose()


def test_the_steps_are_walked_once_and_in_order(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    old_catalog(path)
    migrate(path, add_colour, paint)
    migrate(path, interrupted, interrupted)  # it is up to date: no step runs
    engine = open_engine(path)
    with engine.connect() as connection:
        assert migrations.version(connection) == 3
        colour = connection.exec_driver_sql("select colour from topics").scalar()
        assert colour == "green"
    engine.dispose()
    with pytest.raises(CatalogTooNew):
        Catalog.open(path)


def test_an_interrupted_migration_leaves_the_old_version(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    old_catalog(path)
    with pytest.raises(InterruptedError):
        migrate(path, add_colour, interrupted)
    engine = open_engine(path)
    with engine.connect() as connection:
        assert migrations.version(connection) == 1
        columns = [
            column["name"] for column in inspect(connection).get_columns("topics")
        ]
        assert "colour" not in columns
    engine.dispose()
    Catalog.open(path).close()
