"""What a broker counts, and the file in which other processes read it.

The admin plane is a process of its own and must tell whether the broker is well even
when it answers nobody. So the broker writes what it knows about itself to
``DATA/run/broker.json`` each second; what it says is fixed in `broker.status`.

Counting is adding to a plain integer: only the loop's thread does.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import structlog

from broker.clock import Clock
from broker.status import file
from broker.status.histogram import TIMES, Histogram, HistogramState
from broker.status.schema import BrokerStatus
from broker.storage.files import Files
from broker.timing.delayed import Timers

log = structlog.get_logger("lakelog.status")

INTERVAL_MS = 1_000
KEYS_MAX = 128


@dataclass(slots=True)
class Counters:
    """Plain integers, since the start of the process."""

    connections_open: int = 0
    connections_total: int = 0
    connections_refused: int = 0
    protocol_errors: int = 0
    handler_errors: int = 0
    network_bytes_in: int = 0
    network_bytes_out: int = 0
    batches_in: int = 0
    records_in: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    produce_errors: int = 0
    fetch_errors: int = 0
    carried_bytes: int = 0
    requests: list[int] = field(default_factory=lambda: [0] * KEYS_MAX)
    times: list[Histogram] = field(
        default_factory=lambda: [Histogram(TIMES) for _ in range(KEYS_MAX)]
    )
    """How long requests took from their first step to their answer, by API."""
    loop_lag: Histogram = field(default_factory=lambda: Histogram(TIMES))
    """How late the loop came to what was due."""

    def totals(self) -> dict[str, int]:
        """What only grows, under names that end in ``_total``, as Prometheus asks."""
        grown = (name for name in self.__slots__ if name not in _NOT_GROWING)
        return {_total(name): getattr(self, name) for name in grown}

    def requests_by_name(self, names: Mapping[int, str]) -> dict[str, int]:
        """Requests by API, as ``names`` call it; APIs that nobody asked are out."""
        asked = ((key, count) for key, count in enumerate(self.requests) if count)
        return {names.get(key, str(key)): count for key, count in asked}

    def times_by_name(self, names: Mapping[int, str]) -> dict[str, HistogramState]:
        """How long requests took, by API; of APIs that nobody asked nothing."""
        return {
            names.get(key, str(key)): self.times[key].state()
            for key, count in enumerate(self.requests)
            if count
        }


_NOT_GROWING = frozenset({"connections_open", "requests", "times", "loop_lag"})


def _total(name: str) -> str:
    return f"{name.removesuffix('_total')}_total"


class StatusFile:
    """Writes the status each second until it is closed.

    ``facts`` gives what is to be written, on the loop's thread; the writing itself is
    done on another one, so that a slow disk does not hold up the loop.
    """

    def __init__(
        self,
        path: Path,
        facts: Callable[[], BrokerStatus],
        *,
        clock: Clock,
        timers: Timers,
        files: Files,
    ) -> None:
        self._path = path
        self._facts = facts
        self._clock = clock
        self._timers = timers
        self._files = files
        self._writing: asyncio.Future[None] | None = None
        self._timer: Any = None

    def start(self) -> None:
        """Write now and each second from now on."""
        self._tick()

    async def close(self) -> None:
        """Write a last time and stop."""
        if self._timer is not None:
            self._timer.cancel()
        if self._writing is not None:
            await asyncio.wait([self._writing])
        self._write()
        if self._writing is not None:
            await asyncio.wait([self._writing])

    def _tick(self) -> None:
        self._timer = self._timers.after(INTERVAL_MS, self._tick)
        if self._writing is None or self._writing.done():
            self._write()

    def _write(self) -> None:
        status = replace(self._facts(), written_ms=self._clock.now_ms())
        loop = asyncio.get_running_loop()
        self._writing = loop.run_in_executor(None, self._put, status)

    def _put(self, status: BrokerStatus) -> None:
        try:
            file.replace(self._files, self._path, file.encode(status))
        except OSError as error:
            log.warning("cannot write the status", path=str(self._path), why=str(error))
