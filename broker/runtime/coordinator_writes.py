"""The one way by which groups become durable: gathered, in order, then visible.

The problem: thousands of consumers commit every few seconds, each answer waits for the
disk, and a sync per commit would be the end of it. The idea: while one transaction of
the catalog commits, the changes that arrive gather, and go as the next one, in order.
Offsets and members take the same way, so that a group that is deleted and made again
is never undone by an older change of it.

The price: a change waits for at most one transaction before its own, and fails with
all that gathered beside it.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol, TypeVar

import structlog
from sqlalchemy import Connection

from broker.protocol.errors import ErrorCode, KafkaError

T = TypeVar("T")
Change = Callable[[Connection], None]

log = structlog.get_logger("lakelog.groups")


class Catalog(Protocol):
    """What is used of the catalog: changes that are on disk when they are done."""

    def submit(self, change: Callable[[Connection], T]) -> Future[T]: ...

    def read(self, query: Callable[[Connection], T]) -> T: ...


@dataclass(slots=True)
class _Waiting:
    """A change, what shows it once it is durable, and who waits for both."""

    change: Change
    show: Callable[[], None] | None
    done: "asyncio.Future[None]"


class GroupWrites:
    """Changes of groups on their way to the catalog. For the event loop's thread."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self._waiting: list[_Waiting] = []
        self._writing: list[_Waiting] = []

    def write(
        self, change: Change, show: Callable[[], None] | None = None
    ) -> "asyncio.Future[None]":
        """Run ``change`` on the catalog's thread, then, durable, ``show`` on the loop.

        Done when both are. Raises (from the future) KafkaError
        COORDINATOR_NOT_AVAILABLE: nothing was changed then, and it may be asked again.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(change, show, done))
        if not self._writing:
            self._flush()
        return done

    async def settled(self) -> None:
        """Wait until every change so far is durable, or failed."""
        pending = [one.done for one in (*self._writing, *self._waiting)]
        if pending:
            await asyncio.wait(pending)

    def _flush(self) -> None:
        """Hand everything that gathered to the catalog as one change."""
        loop = asyncio.get_running_loop()
        group, self._waiting = self._waiting, []
        self._writing = group

        def committed(future: Future[None]) -> None:
            error = future.exception()
            loop.call_soon_threadsafe(self._committed, group, error)

        def change_all(connection: Connection) -> None:
            for one in group:
                one.change(connection)

        try:
            future = self.catalog.submit(change_all)
        except KafkaError as error:  # it is closed
            loop.call_soon(self._committed, group, error)
        else:
            future.add_done_callback(committed)

    def _committed(self, group: list[_Waiting], error: BaseException | None) -> None:
        if error is not None:
            log.error("groups could not be stored", error=str(error))
        for one in group:
            if error is None and one.show is not None:
                one.show()
            if one.done.done():
                continue
            if error is None:
                one.done.set_result(None)
            else:
                one.done.set_exception(_unavailable(error))
        self._writing = []  # not before: what is shown may ask for more
        if self._waiting:
            self._flush()


def _unavailable(error: BaseException) -> KafkaError:
    # Retriable for every client: the coordinator may be well again by then.
    code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return KafkaError(code, f"The group could not be stored: {error}")
