"""Insert, or update what is there: the one statement that databases spell apart.

The problem. Committed offsets are upserts, thousands a second; SQLAlchemy takes 20 us
to execute one, of which the database has 2. The idea: it spells the statement once, and
the driver executes that text. The price: what it does on the way, converting values
and naming errors, must not be missed. So only tables whose columns need no converting
go that way. What the driver refuses is named by SQLAlchemy, and not executed again: the
error may have ended the transaction.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import Column, Connection, Dialect, Table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.compiler import SQLCompiler


class _Spelt(NamedTuple):
    """A statement in a database's words, and its parameters in their order."""

    text: str
    names: tuple[str, ...]


Insert = sqlite.Insert | postgresql.Insert

_spelt: dict[tuple[Table, str, Column[Any] | None], _Spelt | None] = {}


def upsert(
    connection: Connection,
    table: Table,
    rows: Iterable[Mapping[str, Any]],
    *,
    if_greater: Column[Any] | None = None,
) -> None:
    """Write rows, given in full, over those with the same primary key; where a column
    is named, only over those that have less there.

    Raises SQLAlchemyError; then none, some or all of them may have been written.
    """
    parameters = list(rows)
    if parameters and not _by_driver(connection, table, parameters, if_greater):
        statement = _statement(table, connection.dialect.name, if_greater)
        connection.execute(statement, parameters)


def _by_driver(
    connection: Connection,
    table: Table,
    rows: list[Mapping[str, Any]],
    if_greater: Column[Any] | None,
) -> bool:
    """Execute by the driver alone; False if that cannot be. Raises DBAPIError."""
    dialect = connection.dialect
    key = table, dialect.name, if_greater
    if key not in _spelt:
        _spelt[key] = _spell(table, dialect, if_greater)
    spelt = _spelt[key]
    if spelt is None:
        return False
    values = [tuple(row[name] for name in spelt.names) for row in rows]
    errors = dialect.loaded_dbapi.Error
    try:
        connection.connection.cursor().executemany(spelt.text, values)
    except errors as error:
        raise DBAPIError.instance(
            spelt.text, values, error, errors, dialect=dialect
        ) from error
    return True


def _spell(
    table: Table, dialect: Dialect, if_greater: Column[Any] | None
) -> _Spelt | None:
    """None where values need converting, or parameters have no order."""
    for column in table.columns:
        kind = column.type.dialect_impl(dialect)
        if kind.bind_processor(dialect) is not None:
            return None
    statement = _statement(table, dialect.name, if_greater)
    compiled = statement.compile(dialect=dialect)
    assert isinstance(compiled, SQLCompiler)
    names = compiled.positiontup
    return None if names is None else _Spelt(str(compiled), tuple(names))


@cache
def _statement(table: Table, dialect: str, if_greater: Column[Any] | None) -> Insert:
    """Building it costs more than running it, so it is built once."""
    statement: Insert
    statement = (
        sqlite.insert(table) if dialect == "sqlite" else postgresql.insert(table)
    )
    values = {
        column.name: statement.excluded[column.name]
        for column in table.columns
        if not column.primary_key
    }
    where = None if if_greater is None else values[if_greater.name] > if_greater
    return statement.on_conflict_do_update(
        index_elements=list(table.primary_key), set_=values, where=where
    )
