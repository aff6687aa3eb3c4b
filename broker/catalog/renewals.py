"""Requests to the broker: begin new segment files, and let the old ones go.

The problem: whoever erases records (`lakelog erase`) wants no byte of them left in the
log, whose files are used again with what they held before; and only the broker may
touch them. The idea: a number that who asks raises, and a number that the broker raises
after it when all files that were there at the request are gone. Who finds both equal
has what he wants, whoever was killed in between.

Both are rows of the table of leases, as holds are: a request is none's to give back,
and it is never over.
"""

from typing import Final

from sqlalchemy import Connection

from broker.catalog import leases, schema
from broker.catalog.upserts import upsert

_ASKED: Final = "renewal:asked"
_DONE: Final = "renewal:done"


def ask(connection: Connection, now_ms: int) -> int:
    """Ask for new files. Returns the number of the request."""
    number = _number(connection, _ASKED) + 1
    _note(connection, _ASKED, number, now_ms)
    return number


def pending(connection: Connection) -> int | None:
    """The newest request that is not done; None: all are."""
    asked = _number(connection, _ASKED)
    return asked if asked > _number(connection, _DONE) else None


def done(connection: Connection, number: int, now_ms: int) -> None:
    """All that was asked for up to this request is done."""
    if number > _number(connection, _DONE):
        _note(connection, _DONE, number, now_ms)


def is_done(connection: Connection, number: int) -> bool:
    """Whether what this request asked for is done."""
    return _number(connection, _DONE) >= number


def _number(connection: Connection, name: str) -> int:
    found = leases.get(connection, name)
    return 0 if found is None else found.epoch


def _note(connection: Connection, name: str, number: int, now_ms: int) -> None:
    row = {"name": name, "holder": "", "epoch": number, "expires_ms": now_ms}
    upsert(connection, schema.leases, [row])
