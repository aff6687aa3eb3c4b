"""An old catalog walks the steps to the new version, all of them or none."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, inspect

from broker.catalog import groups, migrations, schema, topics, transactions
from broker.catalog.catalog import Catalog
from broker.catalog.engine import WRITING, open_engine
from broker.catalog.errors import CatalogTooNew, CatalogTooOld
from tests.support.old_catalogs import take_back


def add_colour(connection: Connection) -> None:
    connection.exec_driver_sql("alter table topics add column colour text")


def paint(connection: Connection) -> None:
    connection.exec_driver_sql("update topics set colour = 'green'")


def interrupted(connection: Connection) -> None:
    raise InterruptedError


def old_catalog(path: Path, version: int = 1) -> None:
    """One of an old version, with a topic."""
    with Catalog.open(path) as catalog:
        catalog.change(lambda c: topics.create(c, "t", bytes(16), 1, {}, 0))
        catalog.change(partial(take_back, version=version))


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


@pytest.mark.parametrize("version", range(1, schema.VERSION))
def test_an_old_catalog_becomes_what_a_new_one_is(tmp_path: Path, version: int) -> None:
    old_catalog(tmp_path / "old.db", version)
    Catalog.open(tmp_path / "new.db").close()
    assert tables(tmp_path / "old.db") != tables(tmp_path / "new.db")
    with Catalog.open(tmp_path / "old.db") as catalog:
        assert [topic.name for topic in catalog.read(topics.load)] == ["t"]
        catalog.change(lambda c: groups.store(c, "g", "value"))
        catalog.change(lambda c: transactions.store(c, "t", "value"))
    assert tables(tmp_path / "old.db") == tables(tmp_path / "new.db")


@pytest.mark.parametrize("version", range(1, schema.VERSION))
def test_who_does_not_own_the_directory_leaves_an_old_version(
    tmp_path: Path, version: int
) -> None:
    path = tmp_path / "old.db"
    old_catalog(path, version)
    before = tables(path)
    with pytest.raises(CatalogTooOld, match=f"has version {version}, .* broker"):
        Catalog.open(path, upgrades=False)
    with Catalog.open(path, read_only=True) as catalog:
        assert [topic.name for topic in catalog.read(topics.load)] == ["t"]
    assert tables(path) == before


def test_who_upgrades_nothing_writes_what_is_up_to_date(tmp_path: Path) -> None:
    Catalog.open(tmp_path / "catalog.db").close()
    with Catalog.open(tmp_path / "catalog.db", upgrades=False) as catalog:
        catalog.change(lambda c: groups.store(c, "g", "value"))


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
    migrate(path, add_colour, *[paint] * 4)
    migrate(path, *[interrupted] * 5)  # it is up to date: no step runs
    engine = open_engine(path)
    with engine.connect() as connection:
        assert migrations.version(connection) == 6
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
