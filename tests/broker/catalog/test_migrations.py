"""An old catalog walks the steps to the new version, all of them or none."""

from pathlib import Path

import pytest
from sqlalchemy import Connection, inspect

from broker.catalog import migrations, topics
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
    with Catalog.open(path) as catalog:
        catalog.change(lambda c: topics.create(c, "t", bytes(16), 1, {}, 0))


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
