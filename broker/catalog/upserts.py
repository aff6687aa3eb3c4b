"""Insert, or update what is there: the one statement that databases spell apart."""

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import postgresql, sqlite


def upsert(
    connection: Connection, table: Table, rows: Iterable[Mapping[str, Any]]
) -> None:
    """Write rows, given in full, over those with the same primary key."""
    parameters = list(rows)
    if not parameters:
        return
    statement: sqlite.Insert | postgresql.Insert
    if connection.dialect.name == "sqlite":
        statement = sqlite.insert(table)
    else:
        statement = postgresql.insert(table)
    excluded = statement.excluded
    values = {
        column.name: excluded[column.name]
        for column in table.columns
        if not column.primary_key
    }
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=list(table.primary_key), set_=values
        ),
        parameters,
    )
