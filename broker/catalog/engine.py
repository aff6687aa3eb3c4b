"""SQLite, set up for a catalog: WAL mode, full sync, transactions that mean it.

Python's driver opens transactions by its own rules, too late for a savepoint and never
for a read. They are switched off; ``BEGIN`` is sent when SQLAlchemy says begin.
``BEGIN IMMEDIATE`` takes the write lock at once: a transaction that starts with reading
and then wants to write would else fail when another process wrote in between, and no
waiting could save it.

With ``synchronous=FULL`` in WAL mode every commit syncs the log before it returns. When
a process cannot have the write lock it waits ``busy_ms``: broker, compactor and command
line write to one file, each for a few milliseconds.
"""

import sqlite3
from pathlib import Path
from typing import Any, Final

from sqlalchemy import URL, Connection, Engine, create_engine, event

from broker.catalog.errors import CatalogError, CatalogMissing

BUSY_MS: Final = 5_000
"""How long to wait for another process. One that holds the lock for longer was stopped
inside its transaction, and everybody's commits stand until it goes on or is killed."""
PAGE_BYTES_MIN: Final = 512
"""No database is smaller."""
_OUT_OF_REACH: Final = frozenset(
    {
        sqlite3.SQLITE_BUSY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY,
    }
)  # fmt: skip
WRITING: Final = "lakelog_writing"
"""Execution option: the transaction will write, and takes the lock at its begin."""


def open_engine(
    location: str | Path, *, read_only: bool = False, busy_ms: int = BUSY_MS
) -> Engine:
    """An engine for the SQLite file at ``location``.

    Raises CatalogMissing if it is to be read and is not there, CatalogError if the
    location is a URL of another kind of database, or the file is cut off and has its
    log beside it: SQLite would take it for a new one, and delete the log.
    """
    if "://" in str(location):
        raise CatalogError(f"only a SQLite file can be a catalog yet, not {location}")
    path = Path(location)
    if read_only and not path.exists():
        raise CatalogMissing(f"there is no catalog at {path}")
    has_log = path.with_name(f"{path.name}-wal").exists()
    if has_log and path.exists() and path.stat().st_size < PAGE_BYTES_MIN:
        raise CatalogError(f"the catalog {path} cannot be opened: it is cut off")
    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        connect_args={"timeout": busy_ms / 1000, "check_same_thread": False},
    )
    event.listen(engine, "connect", _configure_readonly if read_only else _configure)
    event.listen(engine, "begin", _begin)
    return engine


def is_locked(error: BaseException) -> bool:
    """Whether another process holds the write lock."""
    return _code(error) == sqlite3.SQLITE_BUSY


def is_out_of_reach(error: BaseException) -> bool:
    """Whether it is us who cannot read the file now, such as for want of a permission
    or for another's lock: nothing is said of what is in it."""
    return _code(error) in _OUT_OF_REACH


def _code(error: BaseException) -> int:
    """SQLite's primary result code; 0: the error is none of its."""
    code: int = getattr(getattr(error, "orig", None), "sqlite_errorcode", 0)
    return code & 0xFF


def set_busy_ms(connection: Connection, busy_ms: int) -> None:
    """How long this connection waits for the write lock from now on."""
    raw: Any = connection.connection.driver_connection
    raw.execute(f"PRAGMA busy_timeout={busy_ms:d}")


def _configure(connection: Any, _record: Any) -> None:
    connection.isolation_level = None
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")


def _configure_readonly(connection: Any, _record: Any) -> None:
    connection.isolation_level = None
    connection.execute("PRAGMA query_only=ON")


def _begin(connection: Connection) -> None:
    writing = connection.get_execution_options().get(WRITING, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")
