"""The way by which events become durable: in order, and announced on the loop.

A machine's durable events are rows of the catalog (``coordinator_members.py`` and
``coordinator_offsets.py`` say which); all machines take this one way, so that a group
that is deleted and made again is never undone by an older event of it.

Nothing is gathered here: the catalog's thread commits all that waits as one transaction
(``catalog/writer.py``), a savepoint each, so an event that cannot be written fails
alone. What it finished is fetched by the loop in one turn, however much that is.

The price: an event waits for the transaction that runs before its own.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial

import structlog
from sqlalchemy import Connection

from broker.catalog.catalog import Catalog
from broker.protocol.errors import KafkaError

Change = Callable[[Connection], None]
Done = Callable[[BaseException | None], None]

log = structlog.get_logger("lakelog.groups")


class Journal:
    """Durable events on their way. For the event loop's thread."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self._writing = 0
        self._idle: asyncio.Event | None = None
        self._finished: deque[tuple[Done, BaseException | None]] = deque()
        self._called = False

    def write(self, change: Change, done: Done) -> None:
        """Run ``change`` on the catalog's thread; ``done`` on the loop, once durable.

        ``done`` is given the error if nothing was written; it is called later in any
        case, in the order of the writes unless some fail.
        """
        loop = asyncio.get_running_loop()
        self._writing += 1
        try:
            self.catalog.write(change, partial(self._committed, loop, done))
        except KafkaError as error:  # it is closed
            self._finished.append((done, error))
            loop.call_soon(self._notify)

    async def flush(self) -> None:
        """Wait until every write is durable, or failed, and announced."""
        while self._writing:
            self._idle = self._idle or asyncio.Event()
            self._idle.clear()
            await self._idle.wait()

    def _committed(
        self,
        loop: asyncio.AbstractEventLoop,
        done: Done,
        error: BaseException | None,
    ) -> None:
        """Called on the catalog's thread."""
        self._finished.append((done, error))
        if not self._called:
            self._called = True
            loop.call_soon_threadsafe(self._notify)

    def _notify(self) -> None:
        # Before it looks: what is appended from here on calls again, or is found.
        self._called = False
        failed, last = 0, ""
        while self._finished:
            done, error = self._finished.popleft()
            self._writing -= 1
            if error is not None:
                failed, last = failed + 1, str(error)
            try:
                done(error)
            except Exception:
                log.exception("a fault in what was told of a write")
        if failed:  # a full disk fails all that waited: one line for them
            log.error("groups could not be stored", events=failed, error=last)
        if not self._writing and self._idle is not None:
            self._idle.set()
