"""New segment files on request: what was erased from tables leaves the log as well.

The problem: an erased record (`lakelog erase`) also stands in segments, in those that
stay as a cache, and in files that wait to be written again, behind whatever is written
to them next. The idea: on request (`broker.catalog.renewals`) the log goes on in new
files alone. Its free files are removed, the active segment is sealed, and every segment
in an old file is released as soon as tables cover it, whatever its age, and its file is
removed then. The request is done when no old file was found in two looks; what was kept
of tables for cold readers is dropped last.

Who waits sees what holds it: a topic whose records cannot come into its table.

The price: the next segments are written to files that were never written before.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

import structlog

from broker.catalog import renewals
from broker.catalog.catalog import Catalog
from broker.clock import Clock

LOOK_MS: Final = 1_000
LOOKS_WITHOUT: Final = 2

log = structlog.get_logger("lakelog.lake")


class Log(Protocol):
    """What is asked of the write-ahead log."""

    def renew(self) -> None: ...
    @property
    def to_renew(self) -> frozenset[int]: ...


class SegmentRenewal:
    """`tick` is called on the loop every half second or so.

    ``evict`` hears which segments are to be released without delay; ``forget`` drops
    what is kept in memory of tables, and may give a future for when that is done.
    """

    def __init__(
        self,
        wal: Log,
        catalog: Catalog,
        clock: Clock,
        *,
        evict: Callable[[frozenset[int]], None],
        forget: Callable[[], object],
    ) -> None:
        self._wal, self._catalog, self._clock = wal, catalog, clock
        self._evict, self._forget = evict, forget
        self._looked_ms = clock.monotonic_ms()
        self._number: int | None = None
        self._without = 0

    async def tick(self) -> None:
        """See what is asked for, begin it, go on with it. Raises SQLAlchemyError."""
        now_ms = self._clock.monotonic_ms()
        if self._number is None and now_ms - self._looked_ms < LOOK_MS:
            return
        self._looked_ms = now_ms
        loop = asyncio.get_running_loop()
        asked = await loop.run_in_executor(None, self._catalog.read, renewals.pending)
        if asked is None:
            return
        if asked != self._number:
            self._number, self._without = asked, 0
            self._wal.renew()
            log.info("the log goes on in new files", request=asked)
        old = self._wal.to_renew
        self._evict(old)
        self._without = 0 if old else self._without + 1
        if self._without >= LOOKS_WITHOUT:
            await self._finish(asked)

    async def _finish(self, number: int) -> None:
        forgotten, now_ms = self._forget(), self._clock.now_ms()
        if isinstance(forgotten, asyncio.Future):
            await forgotten
        done = self._catalog.submit(lambda c: renewals.done(c, number, now_ms))
        await asyncio.wrap_future(done)
        self._number = None
        log.info("no old file of the log is left", request=number)
