"""Insert, or update what is there: the one statement that databases spell apart."""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from sqlalchemy import Connection, Executable, Table
from sqlalchemy.dialects import postgresql, sqlite


def upsert(
    connection: Connection, table: Table, rows: Iterable[Mapping[str, Any]]
) -> None:
    """Write rows, given in full, over those with the same primary key."""
    parameters = list(rows)
    if parameters:
        connection.execute(_statement(table, connection.dialect.name), parameters)


@cache
def _statement(table: Table, dialect: str) -> Executable:
    """Building it costs more than running it, so it is built once."""
    statement: sqlite.Insert | postgresql.Insert
    statement = (
        sqlite.insert(table) if dialect == "sqlite" else postgresql.insert(table)
    )
    values = {
        column.name: statement.excluded[column.name]
        for column in table.columns
        if not column.primary_key
    }
    return statement.on_conflict_do_update(
        index_elements=list(table.primary_key), set_=values
    )
