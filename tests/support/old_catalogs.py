"""Catalogs as older versions left them."""

from pathlib import Path

from sqlalchemy import Connection

from broker.catalog import migrations
from broker.catalog.engine import open_engine

SINCE = {
    "group_metadata": 2,
    "pending_offsets": 3,
    "transactions": 3,
    "dynamic_configs": 4,
    "finalized_features": 4,
    "released_ends": 5,
}
"""Table -> the version that brought it."""


def take_back(connection: Connection, version: int) -> None:
    """Make a catalog what it was at a version."""
    for table in [name for name, since in SINCE.items() if since > version]:
        connection.exec_driver_sql(f"drop table {table}")
    connection.exec_driver_sql(
        f"update about set value = '{version}' where key = 'schema_version'"
    )


def version_of(path: Path) -> int | None:
    """Which version the catalog in a file has."""
    engine = open_engine(path, read_only=True)
    with engine.connect() as connection:
        found = migrations.version(connection)
    engine.dispose()
    return found
