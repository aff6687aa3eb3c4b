"""Requests to the compactor: take what is committed by now into the tables.

The command line asks and waits; the compactor looks here each round. Neither needs to
know where the other runs.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from sqlalchemy import Connection, insert, select, update
from sqlalchemy import delete as delete_from

from broker.catalog.schema import flush_requests

KEPT_MS: Final = 86_400_000


class FlushRequest(NamedTuple):
    """Somebody waits; ``topics`` are names, None is all of them."""

    id: int
    topics: tuple[str, ...] | None
    asked_ms: int


class FoundRequest(NamedTuple):
    """The same, looked up by its id; ``done_ms`` None: somebody still waits."""

    id: int
    topics: tuple[str, ...] | None
    asked_ms: int
    done_ms: int | None


def ask(connection: Connection, topics: Iterable[str] | None, now_ms: int) -> int:
    """Ask for a flush of these topics, or of all. Returns the request's id.

    On the way, what was asked a day ago is forgotten.
    """
    sweep(connection, now_ms - KEPT_MS)
    inserted = connection.execute(
        insert(flush_requests).values(
            topics=None if topics is None else sorted(set(topics)), asked_ms=now_ms
        )
    )
    key = inserted.inserted_primary_key
    assert key is not None
    return int(key[0])


def pending(connection: Connection) -> Sequence[FlushRequest]:
    """What was asked and is not done, in the order of asking."""
    rows = connection.execute(
        select(flush_requests.c.id, flush_requests.c.topics, flush_requests.c.asked_ms)
        .where(flush_requests.c.done_ms.is_(None))
        .order_by(flush_requests.c.id)
    )
    return [
        FlushRequest(row.id, None if row.topics is None else tuple(row.topics), row[2])
        for row in rows
    ]


def find(connection: Connection, request_id: int) -> FoundRequest | None:
    """A request, done or not; None if it never was, or is forgotten."""
    row = connection.execute(
        select(
            flush_requests.c.topics, flush_requests.c.asked_ms, flush_requests.c.done_ms
        ).where(flush_requests.c.id == request_id)
    ).first()
    if row is None:
        return None
    names = None if row.topics is None else tuple(row.topics)
    return FoundRequest(request_id, names, row.asked_ms, row.done_ms)


def done(connection: Connection, request_id: int, now_ms: int) -> None:
    """Mark a request as done: what it asked for stands in the tables."""
    connection.execute(
        update(flush_requests)
        .where(flush_requests.c.id == request_id)
        .values(done_ms=now_ms)
    )


def sweep(connection: Connection, before_ms: int) -> int:
    """Forget what was asked before then, done or not. Returns how many."""
    swept = connection.execute(
        delete_from(flush_requests).where(flush_requests.c.asked_ms < before_ms)
    )
    return swept.rowcount
