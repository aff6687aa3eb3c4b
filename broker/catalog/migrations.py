"""Bringing a catalog to the version of this program, or refusing it.

A new catalog is created whole, at the newest version. An old one walks the steps from
its version on. All of it is one transaction (SQLite's DDL is transactional), so that a
crash in the middle leaves the old version. One that a newer program has written is
refused before anything is read from it.
"""

from collections.abc import Callable, Sequence
from typing import Final

from sqlalchemy import Connection, insert, inspect, select, update

from broker.catalog import schema
from broker.catalog.errors import CatalogError, CatalogTooNew, CatalogTooOld

Step = Callable[[Connection], None]


def _add_group_metadata(connection: Connection) -> None:
    connection.exec_driver_sql(
        "CREATE TABLE group_metadata ("
        "group_id TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (group_id)"
        ")" + (" WITHOUT ROWID" if connection.dialect.name == "sqlite" else "")
    )


def _add_transactions(connection: Connection) -> None:
    without_rowid = " WITHOUT ROWID" if connection.dialect.name == "sqlite" else ""
    connection.exec_driver_sql(
        "CREATE TABLE pending_offsets ("
        "group_id TEXT NOT NULL, producer_id BIGINT NOT NULL, "
        "topic_number INTEGER NOT NULL, partition INTEGER NOT NULL, "
        "committed_offset BIGINT NOT NULL, leader_epoch INTEGER NOT NULL, "
        "metadata TEXT NOT NULL, committed_ms BIGINT NOT NULL, "
        "PRIMARY KEY (group_id, producer_id, topic_number, partition)"
        ")" + without_rowid
    )
    connection.exec_driver_sql(
        "CREATE TABLE transactions ("
        "transactional_id TEXT NOT NULL, value TEXT NOT NULL, "
        "PRIMARY KEY (transactional_id)"
        ")" + without_rowid
    )


def _add_dynamic_configs(connection: Connection) -> None:
    without_rowid = " WITHOUT ROWID" if connection.dialect.name == "sqlite" else ""
    connection.exec_driver_sql(
        "CREATE TABLE dynamic_configs ("
        "resource_type INTEGER NOT NULL, resource_name TEXT NOT NULL, "
        "configs JSON NOT NULL, PRIMARY KEY (resource_type, resource_name)"
        ")" + without_rowid
    )
    connection.exec_driver_sql(
        "CREATE TABLE finalized_features ("
        "name TEXT NOT NULL, level INTEGER NOT NULL, PRIMARY KEY (name)"
        ")" + without_rowid
    )


def _add_released_ends(connection: Connection) -> None:
    """Of what was released before the next start tells: it has log and tables."""
    connection.exec_driver_sql(
        "CREATE TABLE released_ends ("
        "topic_number INTEGER NOT NULL, partition INTEGER NOT NULL, "
        "end_offset BIGINT NOT NULL, PRIMARY KEY (topic_number, partition)"
        ")" + (" WITHOUT ROWID" if connection.dialect.name == "sqlite" else "")
    )


# Statements are written out: a step makes the table of its version, not of today's.
STEPS: Final[Sequence[Step]] = (
    _add_group_metadata,
    _add_transactions,
    _add_dynamic_configs,
    _add_released_ends,
)
"""``STEPS[n]`` turns version n + 1 into version n + 2."""


def version(connection: Connection) -> int | None:
    """The version of this catalog; None when it is empty.

    Raises CatalogError if what is there is no catalog of ours.
    """
    tables = inspect(connection).get_table_names()
    if not tables:
        return None
    if schema.about.name not in tables:
        raise CatalogError("the file is a database, but no catalog of this program")
    found = connection.scalar(
        select(schema.about.c.value).where(schema.about.c.key == "schema_version")
    )
    if found is None:
        raise CatalogError("the catalog does not say which version it has")
    return int(found)


def check(found: int, supported: int = schema.VERSION) -> None:
    """Raise CatalogTooNew if this program is older than the catalog."""
    if found > supported:
        raise CatalogTooNew(
            f"the catalog has version {found}, this program knows up to {supported}: "
            "a newer version of it has written here"
        )


def check_not_old(found: int, supported: int = schema.VERSION) -> None:
    """Raise CatalogTooOld if the catalog is older than this program."""
    if found < supported:
        raise CatalogTooOld(
            f"the catalog has version {found}, this program writes {supported}: "
            "start a broker of this version first"
        )


def prepare(
    connection: Connection,
    cluster_id: str,
    *,
    steps: Sequence[Step] = STEPS,
    supported: int = schema.VERSION,
) -> None:
    """Create or bring up to date, inside the caller's transaction, under its lock.

    ``cluster_id`` is taken if the catalog is new.
    """
    assert len(steps) == supported - 1, "a step for each version but the first"
    found = version(connection)
    if found is None:
        schema.metadata.create_all(connection)
        connection.execute(
            insert(schema.about),
            [
                {"key": "schema_version", "value": str(supported)},
                {"key": "cluster_id", "value": cluster_id},
            ],
        )
        return
    check(found, supported)
    if found == supported:
        return
    for step in steps[found - 1 :]:
        step(connection)
    connection.execute(
        update(schema.about)
        .where(schema.about.c.key == "schema_version")
        .values(value=str(supported))
    )
