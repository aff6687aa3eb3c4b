"""What a broker counts, and the file in which other processes read it.

The admin plane is a process of its own and must tell whether the broker is well even
when it answers nobody. So the broker writes what it knows about itself to
``DATA/run/broker.json`` each second, by rename: a reader sees a whole file or none, and
an old ``written_ms`` means a broker that hangs or is gone. Spaces at its end keep room:
when the disk has none for a second file, just when it counts, the first is overwritten.

Counting is adding to a plain integer: only the loop's thread does.
"""

import asyncio
import contextlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import structlog

from broker.clock import Clock
from broker.storage.files import Files

log = structlog.get_logger("lakelog.status")

INTERVAL_MS = 1_000
KEYS_MAX = 128
PADDED_BYTES = 8 << 10


class Timers(Protocol):
    """The loop's timers."""

    def after(self, delay_ms: int, callback: Callable[[], None]) -> Any: ...


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
    requests: list[int] = field(default_factory=lambda: [0] * KEYS_MAX)

    def as_dict(self, names: Mapping[int, str]) -> dict[str, Any]:
        """All of them; those that only grow end in ``_total``, as Prometheus asks.

        ``names``: what the APIs are called; those that nobody asked are left out.
        """
        grown = (name for name in self.__slots__ if name not in _NOT_GROWING)
        asked = ((key, count) for key, count in enumerate(self.requests) if count)
        return {
            "connections_open": self.connections_open,
            **{_total(name): getattr(self, name) for name in grown},
            "requests": {_total(names.get(key, str(key))): n for key, n in asked},
        }


_NOT_GROWING = frozenset({"connections_open", "requests"})


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
        facts: Callable[[], dict[str, Any]],
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
        content = {"written_ms": self._clock.now_ms(), **self._facts()}
        loop = asyncio.get_running_loop()
        encoded = json.dumps(content, default=str).encode()
        self._writing = loop.run_in_executor(None, self._put, encoded)

    def _put(self, encoded: bytes) -> None:
        padded = encoded.ljust(PADDED_BYTES)
        new = self._path.with_suffix(".new")
        try:
            self._write_to(self._files.create(new), padded)
            self._files.rename(new, self._path)
        except OSError as error:
            log.warning("cannot write the status", path=str(self._path), why=str(error))
            self._overwrite(padded)

    def _overwrite(self, padded: bytes) -> None:
        with contextlib.suppress(OSError):
            self._write_to(self._files.open(self._path), padded)

    def _write_to(self, file: int, content: bytes) -> None:
        try:
            self._files.pwritev(file, [content], 0)
        finally:
            self._files.close(file)
