"""What a broker does now and then: let segments go, apply retention, forget the idle.

Nobody waits for any of it, so it runs on the broker's timers, a step at a time, and a
step that fails is logged and tried again. Retention decides from the tables' files, and
from segments that nobody compacts (``lake/retention.py``), and moves log starts through
the catalog; the files themselves leave the table by the compactor's hand.

It also looks for records that nobody has (``coverage.py``): of thousands of partitions
some at a time, so that the loop is never held up. Ages are those of the monotonic
clock: nothing here waits for a wall clock that was set back.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence, Set
from typing import Any

import structlog

from broker.lake.retention import UNLIMITED, InSegment, Kept, new_log_start
from broker.lake.segment_carry import SegmentCarry
from broker.lake.segment_retention import SegmentRetention
from broker.runtime.partitions.coverage import (
    Missing,
    hidden,
    is_reached,
    missing,
    undecided,
)
from broker.runtime.partitions.partition import Partition
from broker.runtime.ports import Tables
from broker.runtime.process.held_tables import HeldTables
from broker.runtime.process.segment_renewal import SegmentRenewal
from broker.runtime.process.table_progress import TableProgress
from broker.runtime.services import Broker
from broker.settings import LakeSettings
from broker.status.schema import TAKEN, way_out

log = structlog.get_logger("lakelog.maintenance")

RELEASE_MS = 500
REST_MS = 5_000
PRODUCERS_MS = 60_000
MISSING_MS = 2_000
PARTITIONS_A_TURN = 1_000
FILES_A_TURN = 5_000
PARTITION_AS_FILES = 200
"""What a partition without files costs retention, counted in files."""
MOVED_AS_FILES = 2_500
"""What one costs that loses something: it may be its part of a thousand segments."""
FLUSHES_UNTIL_STUCK = 24
"""Records that were not compacted after so many times ``lake.flush.ms``, and their
``lake.flush.max.ms``, in a sealed segment wait for nobody: retention takes them where
they are."""
WAITS_MS_MAX = 604_800_000
"""So much of a ``lake.flush.max.ms`` counts: the log does not wait for ever."""
MISSING_REPORTED_MAX = 20

Step = Callable[[], Coroutine[Any, Any, object]]


def stuck_after_ms(lake: LakeSettings, topics_ms: int = 0) -> int:
    """How long records wait in a sealed segment until they are taken for stuck.

    ``topics_ms``: the ``lake.flush.max.ms`` of their topic.
    """
    waits_ms = max(lake.flush_bound_ms, min(topics_ms, WAITS_MS_MAX))
    return FLUSHES_UNTIL_STUCK * lake.flush_ms + waits_ms


class MaintenanceScheduler:
    """Runs the steps, each at its own pace, until closed."""

    def __init__(
        self,
        broker: Broker,
        lake: Tables,
        segment_retention: SegmentRetention,
        segment_carry: SegmentCarry,
    ) -> None:
        self._broker = broker
        self._lake = lake
        self._segment_retention = segment_retention
        self._segment_carry = segment_carry
        self._held = HeldTables(broker.catalog, broker.clock)
        self._progress = TableProgress(broker.clock)
        self.missing: list[str] = []
        """One sentence for each partition of which something is lost, or how many."""
        self._behind: dict[Partition, Missing] = {}
        """What was hidden stays so when the log has passed its table's end."""
        self.on_rest: Callable[[], object] = lambda: None
        """Called when reading and writing have stopped for a while."""
        self._renewal = SegmentRenewal(
            broker.wal,
            broker.catalog,
            broker.clock,
            evict=self._evict,
            forget=lambda: self.on_rest(),
        )
        self._running: set[asyncio.Task[object]] = set()
        self._closed = False
        self._active: tuple[int, int] | None = None
        self._done = (0, 0)
        self._rest_at_ms: int | None = None

    def start(self) -> None:
        """Do each step for the first time after its own pause."""
        settings = self._broker.settings
        self._later(RELEASE_MS, self.release)
        self._later(settings.lake.flush_ms, self.carry)
        self._later(settings.lake.retention_check_ms, self.apply_retention)
        self._later(PRODUCERS_MS, self.forget_producers)
        if settings.wal.sync == "interval":
            self._later(settings.wal.sync_interval_ms, self.sync)
        self._later(0, self.look_for_missing, MISSING_MS)

    async def close(self) -> None:
        """Start no more steps and wait for those under way."""
        self._closed = True
        if self._running:
            await asyncio.wait(self._running)

    async def release(self) -> None:
        """Seal the segment that is due by age, release those that tables cover; and
        serve nothing out of segments that an owner changed in the table."""
        for number in self._lake.take_changed():
            for _ in self._broker.partitions.reading_from_table(number):
                await asyncio.sleep(0)
        self._roll_by_age()
        self._rest_if_quiet()
        await self._renewal.tick()
        await self._segment_retention.tick()

    def _evict(self, sequences: Set[int]) -> None:
        self._segment_retention.to_evict = sequences

    async def carry(self) -> None:
        """Carry what holds segments for long into one that replaces them. Not while
        partitions wait for their tables that have a part of it: nobody could tell them
        where it lies then."""
        if not self._broker.partitions.is_all_known():
            return
        self._broker.counters.carried_bytes += await self._segment_carry.tick()

    async def apply_retention(self) -> None:
        """Move the starts of logs past what time or size no longer keeps."""
        now_ms, moves = self._broker.clock.now_ms(), dict[Partition, int]()
        looked_at = 0
        await self._held.look(self._broker.topics.all())
        self._progress.keep(lambda n: self._broker.topics.by_number(n) is not None)
        for partition in list(self._broker.partitions):
            start = self._kept_from(partition, now_ms)
            if start > partition.log_start:
                moves[partition] = start
                looked_at += MOVED_AS_FILES
            looked_at += PARTITION_AS_FILES + len(self._lake.files(*partition.key))
            if looked_at >= FILES_A_TURN:
                looked_at = 0
                await asyncio.sleep(0)
        if moves:
            await self._broker.partitions.raise_log_starts(moves)
            log.info("retention moved log starts", partitions=len(moves))

    async def sync(self) -> None:
        """In the relaxed mode: sync what was acknowledged since the last time."""
        self._broker.wal.sync()

    async def forget_producers(self) -> None:
        """Forget idempotent producers that have long been silent."""
        ttl_ms = self._broker.settings.broker.producer_id_expiration_ms
        now_ms = self._broker.clock.now_ms()
        await self._broker.partitions.expire_producers(now_ms, ttl_ms)

    async def look_for_missing(self) -> None:
        """Find the offsets that neither a segment nor a table has, and those that both
        have, each another record at them."""
        partitions, found = list(self._broker.partitions), list[Missing]()
        unsaid = list[Missing]()
        for at in range(0, len(partitions), PARTITIONS_A_TURN):
            some = partitions[at : at + PARTITIONS_A_TURN]
            found += missing(some, self._lake)
            unsaid += undecided(some)
            for one in hidden(some, self._lake):
                self._behind.setdefault(one.partition, one)
            await asyncio.sleep(0)
        some_found = found[:MISSING_REPORTED_MAX]
        damaged = self._damaged_segments() if some_found else []
        sentences = [self._sentence(each, damaged) for each in some_found]
        sentences += map(self._undecided, unsaid[:MISSING_REPORTED_MAX])
        behind = [one for one in self._behind.values() if not one.partition.deleted]
        sentences += map(self._hidden, behind[:MISSING_REPORTED_MAX])
        found += unsaid + behind
        if len(found) > len(sentences):
            sentences.append(
                f"and records of {len(found) - len(sentences)} more partitions"
            )
        for sentence in set(sentences) - set(self.missing):
            log.error("records are missing", what=sentence)
        self.missing = sentences

    def _name(self, partition: Partition) -> str:
        topic = self._broker.topics.by_number(partition.number)
        name = partition.number if topic is None else topic.name
        return f"{name}-{partition.index}"

    def _undecided(self, undecided: Missing) -> str:
        return (
            f"whether transactions at offsets {undecided.first} to {undecided.end - 1} "
            f"of {self._name(undecided.partition)} were committed is not known: a "
            "marker may be lost there, and other records may stand among them, which "
            f"the compactor's reason spares{self._way_out(undecided)}"
        )

    def _hidden(self, hidden: Missing) -> str:
        return (
            f"the table of {self._name(hidden.partition)} goes on to offset "
            f"{hidden.end}, and the log went on from {hidden.first} or before without "
            "that table: what was written below its end since is hidden behind its rows"
        )

    def _sentence(self, missing: Missing, damaged: Sequence[int]) -> str:
        number, index = missing.partition.key
        name, why = self._name(missing.partition), self._lake.why_missing(number, index)
        if number in self._lake.unreadable_topics():  # most of it may be there
            then = f". It is there once the table can be read: put back {TAKEN}"
        else:
            then = self._way_out(missing, TAKEN)
        return (
            f"offsets {missing.first} to {missing.end - 1} of {name} are in no "
            f"segment: {why}{_kept_for(missing, damaged)}{then}"
        )

    def _damaged_segments(self) -> list[int]:
        """Their numbers; of thousands of segments that takes milliseconds."""
        return [one.sequence for one in self._broker.wal.segments() if not one.intact]

    def _way_out(self, missing: Missing, put_back: str = "") -> str:
        """Nothing while anything before it is not in the table: it would go, too."""
        partition = missing.partition
        table_end = self._lake.table_end(*partition.key)
        if not is_reached(partition, missing.first, table_end):
            return ""
        return f". {way_out(missing.end, put_back)}"

    def _kept_from(self, partition: Partition, now_ms: int) -> int:
        config = partition.config
        limits = (config.retention_ms, config.retention_bytes)
        if not config.deleted or limits == (UNLIMITED, UNLIMITED):
            return partition.log_start
        table_end, end = self._lake.table_end(*partition.key), partition.high_watermark
        is_known = self._progress.look(partition.key, table_end, waits=table_end < end)
        kept = Kept(
            self._lake.files(*partition.key),
            partition.log_start,
            min(table_end, end),
            partition.log.index.bytes_between(table_end, end),
            self._left_in_segments(partition, table_end, now_ms) if is_known else (),
        )
        return new_log_start(
            kept, retention_ms=limits[0], retention_bytes=limits[1], now_ms=now_ms
        )

    def _left_in_segments(
        self, partition: Partition, table_end: int, now_ms: int
    ) -> Iterator[InSegment]:
        """What stays in sealed segments although it is long due for the table; nothing
        if the table is to keep it for longer than the log."""
        if partition.config.waits_for_table:
            return
        waits_ms = partition.config.lake_flush_max_ms
        stuck_ms = stuck_after_ms(self._broker.settings.lake, waits_ms)
        ages_ms, number = self._segment_retention.ages_ms, partition.number
        if self._held.free_ms(number) < stuck_ms:
            return
        if not self._progress.rests(partition.key, stuck_ms):
            return
        for sequence, end, size, newest_ms in partition.log.index.parts():
            age_ms = ages_ms.get(sequence, -1)
            if age_ms < stuck_ms:
                return
            if end > table_end:
                yield InSegment(end, size, newest_ms, now_ms - age_ms)

    def _rest_if_quiet(self) -> None:
        """Once when reading and writing have stopped: memory falls while idle."""
        counters, now_ms = self._broker.counters, self._broker.clock.monotonic_ms()
        done = counters.bytes_in, counters.bytes_out
        if done != self._done:
            self._done, self._rest_at_ms = done, now_ms + REST_MS
        elif self._rest_at_ms is not None and now_ms >= self._rest_at_ms:
            self._rest_at_ms = None
            self._broker.wal.rest()
            self.on_rest()

    def _roll_by_age(self) -> None:
        """By the monotonic clock: the wall clock may be set."""
        wal, now_ms = self._broker.wal, self._broker.clock.monotonic_ms()
        active = next((s.sequence for s in wal.segments() if not s.sealed), None)
        if active is None or wal.failed is not None:
            self._active = None
            return
        if self._active is None or self._active[0] != active:
            self._active = active, now_ms
        if now_ms - self._active[1] >= self._broker.settings.wal.roll_ms:
            wal.roll()

    def _later(self, pause_ms: int, step: Step, then_ms: int | None = None) -> None:
        """Do the step after a pause, then again after each ``then_ms``."""
        again_ms = pause_ms if then_ms is None else then_ms

        def begin() -> None:
            if self._closed:
                return
            task = asyncio.get_running_loop().create_task(self._run(step))
            self._running.add(task)
            task.add_done_callback(self._running.discard)
            task.add_done_callback(lambda _: self._later(again_ms, step))

        if not self._closed:
            self._broker.timers.after(pause_ms, begin)

    async def _run(self, step: Step) -> None:
        try:
            await step()
        except Exception:
            log.exception("a step of maintenance failed and will come again")


def _kept_for(missing: Missing, damaged: Sequence[int]) -> str:
    """Which damaged segment does not go before these offsets are found or given up;
    empty: none."""
    around = missing.partition.log.index.segments_around(missing.first)
    for sequence in damaged:
        if sequence in around:
            return (
                f". Segment {sequence} is damaged, may have held them, and is kept as "
                "long as they are missing"
            )
    return ""
