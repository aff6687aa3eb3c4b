"""What a broker does now and then: let segments go, apply retention, forget the idle.

Nobody waits for any of it, so it runs on the broker's timers, a step at a time, and a
step that fails is told and comes again. Retention decides from the tables' files alone
(``lake/retention.py``) and moves log starts through the catalog; the files themselves
leave the table by the compactor's hand.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

from broker.lake.lake import Lake
from broker.lake.release import Releaser
from broker.lake.retention import UNLIMITED, Kept, new_log_start
from broker.runtime.partition import Partition
from broker.runtime.services import Broker

log = structlog.get_logger("lakelog.upkeep")

RELEASE_MS = 500
PRODUCERS_MS = 60_000

Step = Callable[[], Coroutine[Any, Any, object]]


class Upkeep:
    """Runs the steps, each at its own pace, until closed."""

    def __init__(self, broker: Broker, lake: Lake, releaser: Releaser) -> None:
        self._broker = broker
        self._lake = lake
        self._releaser = releaser
        self._running: set[asyncio.Task[object]] = set()
        self._closed = False

    def start(self) -> None:
        """Do each step for the first time after its own pause."""
        settings = self._broker.settings
        self._later(RELEASE_MS, self.release)
        self._later(settings.lake.retention_check_ms, self.apply_retention)
        self._later(PRODUCERS_MS, self.forget_producers)

    async def close(self) -> None:
        """Start no more steps and wait for those under way."""
        self._closed = True
        if self._running:
            await asyncio.wait(self._running)

    async def release(self) -> None:
        """Seal the segment that is due by age, release those that tables cover."""
        self._roll_by_age()
        await self._releaser.tick()

    async def apply_retention(self) -> None:
        """Move the starts of logs past what time or size no longer keeps."""
        now_ms = self._broker.clock.now_ms()
        moves = {
            partition: start
            for partition in self._broker.partitions
            if (start := self._kept_from(partition, now_ms)) > partition.log_start
        }
        if moves:
            await self._broker.partitions.raise_log_starts(moves)
            log.info("retention moved log starts", partitions=len(moves))

    async def forget_producers(self) -> None:
        """Forget idempotent producers that have long been silent."""
        ttl_ms = self._broker.settings.broker.producer_id_expiration_ms
        self._broker.partitions.expire_producers(self._broker.clock.now_ms(), ttl_ms)

    def _kept_from(self, partition: Partition, now_ms: int) -> int:
        config = partition.config
        limits = (config.retention_ms, config.retention_bytes)
        if not config.deleted or limits == (UNLIMITED, UNLIMITED):
            return partition.log_start
        table_end, end = self._lake.table_end(*partition.key), partition.high_watermark
        kept = Kept(
            self._lake.files(*partition.key),
            partition.log_start,
            min(table_end, end),
            partition.log.index.bytes_between(table_end, end),
        )
        return new_log_start(
            kept, retention_ms=limits[0], retention_bytes=limits[1], now_ms=now_ms
        )

    def _roll_by_age(self) -> None:
        wal, now_ms = self._broker.wal, self._broker.clock.now_ms()
        if wal.failed is not None:
            return
        roll_ms = self._broker.settings.wal.roll_ms
        for segment in wal.segments():
            if not segment.sealed and 0 < segment.created_ms <= now_ms - roll_ms:
                wal.roll()

    def _later(self, pause_ms: int, step: Step) -> None:
        def begin() -> None:
            if self._closed:
                return
            task = asyncio.get_running_loop().create_task(self._run(step))
            self._running.add(task)
            task.add_done_callback(self._running.discard)
            task.add_done_callback(lambda _: self._later(pause_ms, step))

        if not self._closed:
            self._broker.timers.after(pause_ms, begin)

    async def _run(self, step: Step) -> None:
        try:
            await step()
        except Exception:
            log.exception("a step of upkeep failed and will come again")
