"""What all connections of a broker share: limits, memory, and one write a turn.

Answers of one group commit finish in one turn of the loop, on many connections. Each
connection that has something to say notes itself here, and one call in the next turn
lets them all speak: one write for each connection, however many answers it has.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

import structlog

from broker.clock import Clock
from broker.dispatch.dispatcher import Dispatcher
from broker.network.blocks import Arena, BlockPool
from broker.network.budget import Budget
from broker.network.receiver import Receiver
from broker.runtime.status import Counters
from broker.settings import NetworkSettings

log = structlog.get_logger("lakelog.network")

LOOK_MS = 500
"""How often those who hold memory are looked at while others wait for it."""

COMPLAINTS_MAX = 10
"""What peers do wrong is told so often in a second; the rest is only counted."""


class Timers(Protocol):
    """The loop's timers."""

    def after(self, delay_ms: int, callback: Callable[[], None]) -> Any: ...


class Connected(Protocol):
    """A connection, as its hub sees it."""

    @property
    def busy(self) -> bool: ...
    def flush(self) -> None: ...
    def stop_reading(self) -> None: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...
    def hurry(self, now_ms: int) -> None: ...


class Hub:
    """The shared side of all connections."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        limits: NetworkSettings,
        *,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        timers: Timers,
        counters: Counters,
    ) -> None:
        self.dispatcher = dispatcher
        self.limits = limits
        self.loop = loop
        self.clock = clock
        self.timers = timers
        self.counters = counters
        self.receiving = Budget(limits.inflight_bytes_max)
        self.answering = Budget(limits.inflight_bytes_max)
        self.connections: set[Connected] = set()
        self._pool = BlockPool(limits.pooled_bytes_max)
        self._arena = Arena(self._pool)
        self._speakers: list[Connected] = []
        self._full_told = False
        self._complaints = 0
        self._complaining_ms = 0
        self._hurrying = False

    def receiver(self) -> Receiver:
        """The receiving half of a new connection."""
        limit = self.limits.frame_bytes_max
        return Receiver(self._arena, self._pool, self.receiving, limit)

    def admit(self, connection: Connected) -> bool:
        """Count a new connection in, unless there are too many."""
        if len(self.connections) >= self.limits.connections_max:
            self.counters.connections_refused += 1
            if not self._full_told:
                self._full_told = True
                log.warning("connections refused", limit=self.limits.connections_max)
            return False
        self.connections.add(connection)
        self.counters.connections_total += 1
        self.counters.connections_open = len(self.connections)
        return True

    def forget(self, connection: Connected) -> None:
        """A connection is gone."""
        self.connections.discard(connection)
        self.counters.connections_open = len(self.connections)
        if len(self.connections) < self.limits.connections_max // 2:
            self._full_told = False

    def complain(self, what: str, **facts: str) -> None:
        """Tell what a peer did wrong, but let nobody fill the log with it."""
        now_ms = self.clock.monotonic_ms()
        if now_ms - self._complaining_ms >= 1_000:
            if self._complaints > COMPLAINTS_MAX:
                log.warning("not told", more=self._complaints - COMPLAINTS_MAX)
            self._complaining_ms, self._complaints = now_ms, 0
        self._complaints += 1
        if self._complaints <= COMPLAINTS_MAX:
            log.warning(what, **facts)

    def hurry(self) -> None:
        """Somebody waits to receive: who holds the memory uses it soon, or goes.

        Else two peers who announce 64 MiB each, and send nothing, would keep all
        others from sending anything large until the two are late.
        """
        if not self._hurrying:
            self._hurrying = True
            self.timers.after(LOOK_MS, self._hurry)

    def _hurry(self) -> None:
        self._hurrying = False
        if not self.receiving.is_awaited:
            return
        now_ms = self.clock.monotonic_ms()
        for connection in list(self.connections):
            connection.hurry(now_ms)
        self.hurry()

    def flush_soon(self, connection: Connected) -> None:
        """Let a connection write at the loop's next turn."""
        if not self._speakers:
            self.loop.call_soon(self._flush)
        self._speakers.append(connection)

    def _flush(self) -> None:
        speakers, self._speakers = self._speakers, []
        for connection in speakers:
            connection.flush()
