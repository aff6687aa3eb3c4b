"""The way by which events become durable: in order, and announced on the loop.

A machine's durable events are rows of the catalog (``coordinator_members.py`` and
``coordinator_offsets.py`` say which); all machines take this one way, so that a group
that is deleted and made again is never undone by an older event of it.

Nothing is gathered here: the catalog's thread commits all that waits as one transaction
(``catalog/writer.py``), a savepoint each, so an event that cannot be written fails
alone. What it finished comes to the loop a part in each turn (``runtime/handover.py``).

The price: an event waits for the transaction that runs before its own.
"""

import asyncio
from collections.abc import Callable
from functools import partial

import structlog
from sqlalchemy import Connection

from broker.catalog.catalog import Catalog
from broker.protocol.errors import KafkaError
from broker.runtime.handover import Handover

Change = Callable[[Connection], None]
Done = Callable[[BaseException | None], None]

log = structlog.get_logger("lakelog.groups")


class Journal:
    """Durable events on their way. For the event loop's thread."""

    def __init__(self, catalog: Catalog, of: str = "groups") -> None:
        """``of``: whose events they are, for people who read the log."""
        self.catalog = catalog
        self._failure = f"{of} could not be stored"
        self._writing = 0
        self._idle: asyncio.Event | None = None
        self._finished = Handover()
        self._failed, self._last_error = 0, ""

    def write(self, change: Change, done: Done, counts_as: int = 1) -> None:
        """Run ``change`` on the catalog's thread; ``done`` on the loop, once durable.

        ``done`` is given the error if nothing was written; it is called later in any
        case, in the order of the writes unless some fail. ``counts_as``: as how many
        calls of a tenth of a millisecond.
        """
        loop = asyncio.get_running_loop()
        self._writing += 1

        def committed(error: BaseException | None) -> None:
            """Called on the catalog's thread."""
            self._finished.put(loop, partial(self._notify, done, error), counts_as)

        try:
            self.catalog.write(change, committed)
        except KafkaError as error:  # it is closed
            committed(error)

    async def flush(self) -> None:
        """Wait until every write is durable, or failed, and announced."""
        while self._writing:
            self._idle = self._idle or asyncio.Event()
            self._idle.clear()
            await self._idle.wait()

    def _notify(self, done: Done, error: BaseException | None) -> None:
        self._writing -= 1
        if error is not None:
            self._failed, self._last_error = self._failed + 1, str(error)
        try:
            done(error)
        except Exception:
            log.exception("a fault in what was told of a write")
        if self._failed and self._finished.is_empty:
            # a full disk fails all that waited: one line for them
            log.error(
                self._failure,
                events=self._failed,
                error=self._last_error,
            )
            self._failed = 0
        if not self._writing and self._idle is not None:
            self._idle.set()
