"""What all connections of a broker share: limits, memory, and one write a turn.

Answers of one group commit finish in one turn of the loop, on many connections. Each
connection that has something to say notes itself here, and one call in the next turn
lets them all speak: one write for each connection, however many answers it has.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from contextvars import Context
from functools import partial
from typing import Protocol

import structlog

from broker.clock import Clock
from broker.dispatch.dispatcher import Dispatcher
from broker.network.blocks import Arena, BlockPool
from broker.network.receiver import Receiver
from broker.network.turn import Turn
from broker.runtime.budget import Budget
from broker.runtime.process.status import Counters
from broker.settings import NetworkSettings
from broker.timing.delayed import Timers

log = structlog.get_logger("lakelog.network")

LOOK_MS = 500
"""How often those who hold memory are looked at while others wait for it."""

REPEAT_MS = 60_000
"""What peers do wrong is logged so often for each reason, with a count."""

REASONS_MAX = 100


class Connected(Protocol):
    """A connection, as its hub sees it."""

    peer: str

    @property
    def busy(self) -> bool: ...
    def flush(self) -> None: ...
    def stop_reading(self) -> None: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...
    def evict_if_slow(self, now_ms: int) -> None: ...


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
        self.turn = Turn(
            partial(loop.call_soon, context=Context()),
            clock.monotonic_ns,
            dispatcher.brief,
        )
        self.counters = counters
        self.receiving = Budget(limits.inflight_bytes_max)
        self.producing = Budget(limits.inflight_bytes_max)
        """Of open requests of pipelined routes: they wait for the disk."""
        self.answering = Budget(limits.inflight_bytes_max)
        """Of all other open requests."""
        self.connections: dict[Connected, None] = {}  # in the order in which they came
        self.stopping = False
        self.hosts: Counter[str] = Counter()
        self._pool = BlockPool(limits.pooled_bytes_max)
        self._arena = Arena(self._pool)
        self._speakers: list[Connected] = []
        self._together = False
        self._reasons: dict[str, tuple[int, int]] = {}
        self._evicting = False

    @property
    def is_short(self) -> bool:
        """Whether some requests must wait for the memory of others."""
        return self.producing.spent or self.answering.spent

    def budget_of(self, pipelined: bool) -> Budget:
        """The budget that an open request takes its bytes from."""
        return self.producing if pipelined else self.answering

    def receiver(self) -> Receiver:
        """The receiving half of a new connection."""
        limit = self.limits.frame_bytes_max
        return Receiver(self._arena, self._pool, self.receiving, limit)

    def admit(self, connection: Connected) -> bool:
        """Count a new connection in, unless there are too many, or of its host.

        One that was accepted while the listener closed is too late.
        """
        if self.stopping:
            return False
        limits, host = self.limits, connection.peer
        if len(self.connections) >= limits.connections_max:
            why = f"{limits.connections_max} are open"
        elif self.hosts[host] >= limits.connections_per_host_max:
            why = f"{limits.connections_per_host_max} of its host are open"
        else:
            self.connections[connection] = None
            self.hosts[host] += 1
            self.counters.connections_total += 1
            self.counters.connections_open = len(self.connections)
            return True
        self.counters.connections_refused += 1
        self.log_refusal("connection refused", peer=host, why=why)
        return False

    def forget(self, connection: Connected) -> None:
        """Count a connection out that was lost."""
        if connection not in self.connections:
            return
        del self.connections[connection]
        self.counters.connections_open = len(self.connections)
        self.hosts[connection.peer] -= 1
        if not self.hosts[connection.peer]:
            del self.hosts[connection.peer]

    def log_refusal(self, what: str, *, why: str, **facts: str) -> None:
        """Log what a peer did wrong: each ``why`` once a minute, with how often since.

        Of ``REASONS_MAX`` reasons at most, since peers may make up new ones; those
        beyond are one.
        """
        now_ms = self.clock.monotonic_ms()
        if why not in self._reasons and len(self._reasons) >= REASONS_MAX:
            self._forget_reasons(now_ms)
        key = why if len(self._reasons) < REASONS_MAX or why in self._reasons else ""
        logged_ms, times = self._reasons.get(key, (now_ms - REPEAT_MS, 0))
        if now_ms - logged_ms >= REPEAT_MS:
            log.warning(what, why=why, times=times + 1, **facts)
            self._reasons[key] = now_ms, 0
        else:
            self._reasons[key] = logged_ms, times + 1

    def _forget_reasons(self, now_ms: int) -> None:
        self._reasons = {
            why: (logged_ms, times)
            for why, (logged_ms, times) in self._reasons.items()
            if now_ms - logged_ms < REPEAT_MS
        }

    def evict_slow_receivers(self) -> None:
        """Somebody waits to receive: who holds the memory uses it soon, or goes.

        Else two peers who announce 64 MiB each, and send nothing, would keep all
        others from sending anything large until the two are late.
        """
        if not self._evicting:
            self._evicting = True
            self.timers.after(LOOK_MS, self._evict)

    def _evict(self) -> None:
        self._evicting = False
        if not self.receiving.is_awaited:
            return
        now_ms = self.clock.monotonic_ms()
        for connection in list(self.connections):
            connection.evict_if_slow(now_ms)
        self.evict_slow_receivers()

    def together(self, step: Callable[[], None]) -> None:
        """Run what completes many requests; write all of its answers at its end.

        Once for each connection, and a turn of the loop sooner than `flush_soon` alone.
        """
        self._together = True
        try:
            step()
        finally:
            self._together = False
            self._flush()

    def flush_soon(self, connection: Connected) -> None:
        """Flush a connection at the loop's next turn."""
        if not (self._speakers or self._together):
            self.loop.call_soon(self._flush)
        self._speakers.append(connection)

    def _flush(self) -> None:
        speakers, self._speakers = self._speakers, []
        for connection in speakers:
            connection.flush()
