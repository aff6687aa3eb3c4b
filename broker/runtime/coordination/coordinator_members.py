"""Groups in the catalog: what their members need to go on after a restart.

A row per group, written when a generation is complete, when a group is empty, and when
a static member has a new id (``broker/groups/snapshot.py`` has the text). It is made on
the catalog's thread, so that a group of hundreds does not hold up the loop.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import structlog
from sqlalchemy import Connection

from broker.catalog import groups as stored
from broker.catalog.catalog import Catalog
from broker.groups.commands import Command, Expire, Refused, Written
from broker.groups.events import WriteBegan
from broker.groups.snapshot import GroupSnapshot, decode, encode
from broker.protocol.errors import ErrorCode
from broker.runtime.coordination.journal import Journal
from broker.runtime.coordination.machines import Shape, resolve

log = structlog.get_logger("lakelog.groups")


def load(catalog: Catalog) -> Iterator[tuple[str, GroupSnapshot]]:
    """Every group that was stored. Blocks.

    One that cannot be read is told in the log and left out: its members join again,
    which is better than a broker that does not start.
    """
    for group_id, value in catalog.read(stored.load).items():
        try:
            yield group_id, decode(value)
        except ValueError as error:
            log.error("a group is forgotten", group=group_id, error=str(error))


def delete(journal: Journal, group_id: str) -> None:
    """Forget a group's row; nobody waits for it."""
    journal.write(partial(stored.delete, group_id=group_id), lambda _: None)


def shape_of(group_id: str) -> Shape[Command]:
    """How the machine of this group is stored, told and refused."""
    return Shape(partial(_store, group_id), _written, _fail, Expire)


def _store(group_id: str, connection: Connection, event: WriteBegan) -> None:
    stored.store(connection, group_id, encode(event.snapshot))


def _written(event: WriteBegan, error: BaseException | None) -> Written:
    failed = error is not None
    code = ErrorCode.COORDINATOR_NOT_AVAILABLE if failed else ErrorCode.NONE
    return Written(event.serial, code)


def _fail(ticket: Any, _: BaseException) -> None:
    resolve(ticket, Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE))
