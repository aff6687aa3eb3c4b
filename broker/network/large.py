"""A request so large that it is read in turns of the loop.

It is no exchange yet, since its handler has not returned: nothing behind it on its
connection starts, and when the connection is lost it never happened; but a write goes
on to its end, as whatever came whole does. The memory of its frame counts as that of a
request at work.
"""

from functools import partial
from typing import Any, Protocol

from broker.dispatch.dispatcher import Route
from broker.dispatch.turns import Reading
from broker.network.hub import Hub
from broker.runtime.process.long_work import LongWork, pieces


class Owner(Protocol):
    """The connection that a request came on."""

    def started(self, route: Route, number: int, size: int, result: Any) -> None:
        """The request was read and its handler returned."""

    def broken(self, error: Exception) -> None:
        """It could not be read, or its handler failed."""

    def flush(self) -> None: ...

    def close_if_answered(self) -> None:
        """Close if nothing more is read of its peer, and nothing is open."""

    def resume_soon(self) -> None: ...


class LargeRequest:
    """Reads from the loop's next turn on, until it is whole or abandoned."""

    __slots__ = (
        "_budget", "_number", "_owner", "_reading", "_route", "_size", "_work",
    )  # fmt: skip

    def __init__(
        self,
        owner: Owner,
        hub: Hub,
        route: Route,
        number: int,
        size: int,
        reading: Reading,
    ) -> None:
        self._owner = owner
        self._route = route
        self._number = number
        self._size = size
        self._reading: Reading | None = reading
        self._budget = hub.budget_of(route.is_write)
        self._budget.take(size)
        self._work = LongWork()
        self._work.later(self._step)

    def abandon(self) -> None:
        """Stop reading the request: its connection is lost. It weighs until what was
        read is freed, in a turn to come: many may hang up in one. A write goes on."""
        if self._reading is not None and not self._route.is_write:
            pieces().give_up(partial(self._free, self._reading))
            self._reading = None

    def _free(self, reading: Reading) -> None:
        reading.close()
        self._budget.give(self._size)

    def _end(self) -> None:
        if self._reading is not None:
            self._reading = None
            self._budget.give(self._size)

    def _step(self) -> None:
        reading = self._reading
        if reading is None:
            return
        try:
            with self._work.of_request():
                result = reading.step()
        except Exception as error:  # noqa: BLE001 - told by the owner
            self._end()
            self._owner.broken(error)
            return
        if result is reading:
            self._work.later(self._step)
            return
        self._end()
        with self._work.of_request():
            self._owner.started(self._route, self._number, self._size, result)
        self._owner.flush()
        self._owner.close_if_answered()
        self._owner.resume_soon()
