"""The compactor: moves the log into tables, one step at a time.

The problem: records should stand in their table seconds after they were acknowledged,
whatever the number of topics, and Spark takes longer than that to start. The idea: one
driver that stays (`driver`), looks five times a second at where segments end and tables
end, and runs one Spark job for all topics that are due. It keeps nothing that it could
not find again: the segments say what there is, the tables' logs say what they have. So
it may be killed at any instant, and the next one goes on from there.

What cannot be compacted (damage, a table that its owner locked, records that kill a
worker) stops its partition or its topic, and nothing else.

All ages and pauses are those of the monotonic clock; the wall clock, which may be set,
is for what others read.

The price: looking costs a few per cent of a core while data flow.
"""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import structlog

from broker.catalog import requests
from broker.catalog import topics as catalog_topics
from broker.catalog.catalog import Catalog
from broker.catalog.requests import FlushRequest
from broker.clock import Clock
from broker.ids import TopicNumber, TopicPartition
from broker.settings import Settings
from broker.status.schema import CompactorStatus
from broker.storage.files import PosixFiles
from broker.storage.store import open_store
from broker.topics.topic import Topic
from jobs import planner
from jobs.backlog import Backlog
from jobs.blocked import Blocked
from jobs.checkpoints import Checkpoints
from jobs.defaults import topic_defaults
from jobs.describe import first_of_new
from jobs.figures import Figures
from jobs.isolate import Spread
from jobs.log_starts import LogStarts
from jobs.maintain import Delays, Maintenance
from jobs.merging.background import Runner
from jobs.merging.merger import Merger
from jobs.missing import Lack, Missing, front
from jobs.owners.standing_back import StandingBack
from jobs.pace import Pacing
from jobs.planner import Pending
from jobs.requests import Requests
from jobs.rewrites import Rewrites
from jobs.rhythm import Rhythm
from jobs.round import Outcome, run_round
from jobs.space import little_left
from jobs.status import Counters, HeldLog, log_stuck, problems_of, table_states
from jobs.stuck import WHOLE_TOPIC, Stuck
from jobs.tables import Table, Tables
from jobs.topics import KnownTopics
from jobs.unread import Unread
from jobs.warehouse import Warehouse
from lakehouse.further import link_of

MERGE_ENDS_S: Final = 2.0

log = structlog.get_logger("lakelog.compactor")


class Compactor:
    """One step at a time; Spark, segments and clock are handed in. ``cores``: how many
    Spark has now."""

    def __init__(
        self,
        settings: Settings,
        catalog: Catalog,
        backlog: Backlog,
        spread: Spread,
        cores: Callable[[], int],
        clock: Clock,
        holds_lease: Callable[[], bool],
        set_niceness: Callable[[int], bool] = lambda niceness: True,
        merges: Runner | None = None,
    ) -> None:
        self._settings, self._catalog, self._clock = settings, catalog, clock
        self._topics = KnownTopics(catalog, clock)
        self._log_starts = LogStarts(catalog, clock)
        self._backlog, self._spread, self._cores = backlog, spread, cores
        self._warehouse = Warehouse(
            PosixFiles(), settings.data_dir, holds_lease, settings.wal.low_space_bytes
        )
        self._further = self._warehouse.further
        self._may_write = self._warehouse.is_ours
        self._full: str | None = None
        warehouse = str(settings.data_dir / "tables")
        self._tables = Tables(warehouse, clock.monotonic_ms)
        lake = settings.lake
        delays = Delays(
            lake.file_delete_delay_ms, lake.table_delete_delay_ms,
            lake.deleted_table_retention_ms,
        )  # fmt: skip
        room_bytes = 2 * settings.wal.low_space_bytes
        self._maintenance = Maintenance(
            catalog, self._tables, warehouse, backlog.has, delays,
            lambda name: little_left(link_of(warehouse, name), room_bytes) is not None,
            lambda: None if self._rewrites is None else self._rewrites.writing,
            clock.monotonic_ms,
        )  # fmt: skip
        every_ms = max(1_000, min(lake.retention_check_ms, *delays))
        self._maintain_every_ms, self._maintain_at_ms = every_ms, 0
        self.counters, self._figures = Counters(), Figures()
        self._checkpoints = Checkpoints(self._reached, clock)
        self._rewrites = None if merges is None else Rewrites(Merger(
            lake, merges, clock, self.counters, settings.data_dir / "spill",
            self._checkpoints.note, self._maintenance.suspect,
            lambda: catalog.read(lambda found: topic_defaults(found, settings)),
            lambda: catalog.read(catalog_topics.load_log_starts),
        ))  # fmt: skip
        self._back = StandingBack(catalog, clock, lake.owner_wait_ms)
        self._missing = Missing(open_store(str(settings.data_dir / "wal")))
        self._lacking = set[TopicPartition]()
        self._requests, self._stuck = Requests(), Stuck()
        self._rhythm, self._blocked = Rhythm(lake), Blocked(self._tables.followed)
        self._held_log, self._attempts = HeldLog(), 0
        self._unread = Unread(backlog)
        self._ends: dict[TopicPartition, int] = {}
        self._pacing = Pacing(lake.flush_ms, set_niceness)
        self._status = CompactorStatus(state="starting", pid=os.getpid())

    def status(self) -> CompactorStatus:
        """What is to be said of the compactor now; from any thread."""
        return replace(
            self._figures.said(self._status),
            written_ms=self._clock.now_ms(),
            counters=self.counters.totals(),
            disk=self._warehouse.disk,
        )

    def set_state(self, state: str) -> None:
        """Say ``state`` from now on."""
        self._status = replace(self._status, state=state)

    def stop(self) -> None:
        """Nothing is to be done any more; blocks for a moment while a merge ends."""
        self.set_state("stopped")
        if self._rewrites is not None:
            self._rewrites.stop(MERGE_ENDS_S)
        self._back.close()
        self._tables.close()
        self._warehouse.close()

    def round_failed(self, why: str) -> None:
        """Count a step that failed as a whole, and say so until one succeeds."""
        self.counters.rounds_failed += 1
        self._status = replace(
            self._status, state="failing", problems=(f"a round failed: {why}",)
        )

    def step(self) -> bool:
        """Look, and do what is due; True if there is more to do at once.

        Raises OSError, SQLAlchemyError, KafkaError, StaleSegment (try again later) and
        whatever Spark raises when it is gone.
        """
        if not self._may_write():
            self._status = self._warehouse.kept_out(self._status)
            return False
        now_ms = self._clock.monotonic_ms()
        topics = self._topics.look()
        self._stand_back(topics)
        if self._rewrites is not None:
            self._rewrites.finish(topics, self._free_table, self._may_write)
        self._maintain(now_ms)
        self._checkpoints.make(self._may_write)
        asked = self._catalog.read(requests.pending)
        self._hasten(topics, asked, now_ms)
        self._backlog.refresh(now_ms)
        self._log_starts.behind(self._backlog.live)
        waiting = self._pending(topics, asked, now_ms)
        for key in self._blocked.freed(waiting):
            self._stuck.clear(*key)
        asked_for = self._requests.topics
        free = [one for one in waiting if not self._back.bars(one.key[0], asked_for)]
        self._full = self._warehouse.full()
        space = self._further.with_space(topics)
        free = [one for one in free if one.key[0] in space]
        self._report([*waiting, *self._unread.waiting()], topics, now_ms)
        self._held_log.look(self._backlog.held, now_ms)
        if self._full is not None:
            return False
        by_key = {one.key: one for one in waiting}
        new = first_of_new(free, self._tables.absent, self._stuck)
        new = self._without_missing(new, by_key)
        self._open_tables({one.key[0] for one in new}, topics)
        due = self._without_missing(self._due(free, topics, now_ms), by_key)
        more = self._round(due, topics) if due else False
        self._merge(topics, is_late=more or self._pacing.is_late)
        return more

    def _merge(self, topics: Mapping[TopicNumber, Topic], *, is_late: bool) -> None:
        """Begin to merge or clean files of a table, behind everything else."""
        if self._rewrites is not None:
            self._rewrites.keep(topics)
            space = self._further.with_space(topics)
            free = partial(self._tables.free, space, self._bars)
            self._rewrites.look(free, is_late)

    def _stand_back(self, topics: Mapping[TopicNumber, Topic]) -> None:
        """See and say at once whose tables are left alone: who asked waits for that."""
        back = self._back
        back.look(topics, self._tables.all())
        self.counters.owner_waits = back.waits
        self._status = replace(
            self._status,
            holds={topics[number].name: until for number, until in back.holds.items()},
            erased=tuple(topics[number].name for number in sorted(back.erased)),
            held=len(back.holds),
            waits_for_owners=len(back.attempts),
            rewriting="" if self._rewrites is None else self._rewrites.topic,
        )

    def _is_free(self, number: TopicNumber) -> bool:
        """Whether a round that is written may be committed to a topic's table."""
        self._back.look_again()
        return not self._bars(number, self._requests.topics)

    def _bars(self, number: TopicNumber, asked: Collection[TopicNumber] = ()) -> bool:
        """Whether nothing is to be committed to a topic's table."""
        topic = self._topics.get(number)
        return self._back.bars(number, asked) or not self._further.takes(topic)

    def _free_table(self, number: TopicNumber) -> Table | None:
        """A followed table that may be committed to."""
        return None if self._bars(number) else self._tables.followed(number)

    def _reached(self, number: TopicNumber) -> Table | None:
        """A followed table in a warehouse that is there."""
        is_there = self._further.takes(self._topics.get(number))
        return self._tables.followed(number) if is_there else None

    def _hasten(
        self,
        topics: Mapping[TopicNumber, Topic],
        asked: Sequence[FlushRequest],
        now_ms: int,
    ) -> None:
        """Wait no longer for topics that somebody asks for now, nor for tables whose
        owners did something since the last try.
        """
        for number in self._requests.take_in(asked, topics):
            self._stuck.end_pauses(number, now_ms)
        for number in list(self._stuck.paused(now_ms)):
            if number in topics and self._tables.moved(topics[number]):
                self._stuck.moved(number)

    def _pending(
        self,
        topics: Mapping[TopicNumber, Topic],
        asked: Sequence[FlushRequest],
        now_ms: int,
    ) -> list[Pending]:
        """What tables lack; requests that are fulfilled are answered on the way.

        ``asked`` was read before the segments were: what was durable then counts.
        """
        self._follow_tables(topics, now_ms)
        starts = self._log_starts.look() if asked else {}
        for done in self._requests.look(
            asked, topics, self._backlog.ends, self._ends, starts
        ):
            self._catalog.change(
                lambda connection, done=done: requests.done(  # type: ignore[misc]
                    connection, done, self._clock.now_ms()
                )
            )
        unreadable = self._tables.unreadable.keys()
        waiting = self._backlog.pending(
            self._ends, topics.keys() - unreadable, self._log_starts.of
        )
        self._stuck.keep({one.key for one in waiting if one.bytes}, unreadable)
        held = self._backlog.held
        self._stuck.hold(held, now_ms, request_id=self._requests.newest)
        return waiting

    def _follow_tables(self, topics: Mapping[TopicNumber, Topic], now_ms: int) -> None:
        """See where the tables end, of topics that are not paused. Of one that somebody
        waits for the log may have let all go since, because its table has it."""
        tables = self._tables
        for gone in [number for number in tables.unreadable if number not in topics]:
            del tables.unreadable[gone]
        present = [
            topics[number]
            for number in self._backlog.topics() | self._requests.topics
            if number in topics and self._stuck.may_try((number, WHOLE_TOPIC), now_ms)
        ]
        numbers = {topic.number for topic in present}
        before = tables.troubled(numbers)
        paused = {
            key: end
            for key, end in self._ends.items()
            if key[0] in topics and key[0] not in numbers
        }
        ends = tables.ends(present)
        self._unread.keep(self._ends, tables.unreadable)
        self._ends = {**paused, **ends}
        for number in numbers & tables.unreadable.keys():
            self._fail((number, WHOLE_TOPIC), tables.unreadable[number])
        for number in before - tables.troubled(numbers):
            self._stuck.clear(number)

    def _due(
        self, waiting: list[Pending], topics: Mapping[TopicNumber, Topic], now_ms: int
    ) -> list[Pending]:
        """What is to be compacted now, at a pace that is set by what did not fail."""
        stuck, rhythm = self._stuck, self._rhythm
        rhythm.newest_segment = self._backlog.newest_segment
        failed = {one.key for one in waiting if stuck.failed(one.key)}
        open_ = [one for one in waiting if one.key not in failed]
        by_topic = rhythm.by_topic(open_, now_ms)
        overdue_ms = rhythm.overdue_ms(by_topic, topics)
        self._pacing.look(sum(one.bytes for one in open_), overdue_ms, now_ms)
        again = {key for key in failed if stuck.may_try(key, now_ms)}
        if again:
            open_ += [one for one in waiting if one.key in again]
            by_topic = rhythm.by_topic(open_, now_ms)
        return rhythm.due(open_, by_topic, topics, self._requests.topics)

    def _without_missing(
        self, due: list[Pending], waiting: dict[TopicPartition, Pending]
    ) -> list[Pending]:
        """``due`` but for what would be committed over records that are missing; of a
        partition that misses some, what lies before them goes on."""
        suspects = self._missing.suspects(due, self._ends, self._tables.absent)
        found = self._find_missing(suspects, waiting) if suspects else {}
        fronts = {
            one.key: before
            for one in suspects
            if one.key in found and (before := front(one, found[one.key].first)).bytes
        }
        for key in fronts:  # it stops when that is in the table
            del found[key]
        for key, lack in found.items():
            self._tables.forget(key[0])
            self._fail(key, lack.why)
        whole = {number for number, part in found if part == WHOLE_TOPIC}
        for one in suspects:
            if one.key[0] in whole:
                self._stuck.clear(*one.key)
        looked_at = {one.key for one in due}
        for key in (self._lacking & looked_at) - found.keys():
            self._stuck.clear(*key)  # whatever stops it now
        self._lacking = (self._lacking - looked_at) | found.keys()
        rest = [o for o in due if o.key not in found and o.key[0] not in whole]
        return [fronts.get(one.key, one) for one in rest]

    def _find_missing(
        self, suspects: list[Pending], waiting: dict[TopicPartition, Pending]
    ) -> dict[TopicPartition, Lack]:
        starts = self._catalog.read(catalog_topics.load_log_starts)
        return self._missing.find(
            suspects, waiting, self._ends, self._tables.absent, starts,
            is_damaged=bool(self._backlog.holes),
        )  # fmt: skip

    def _round(self, due: list[Pending], topics: Mapping[TopicNumber, Topic]) -> bool:
        pace, cores = self._pacing.pace, self._cores()
        tried = planner.trials(due, self._stuck.failed)
        size = pace.round_bytes(cores)
        plan = planner.plan(tried, pace.tasks(cores), round_bytes=size)
        tables = self._open_tables({item.key[0] for item in plan.items}, topics)
        self._attempts += 1
        attempt = f"{os.getpid():x}-{self._clock.now_ms():x}-{self._attempts:x}"
        begun_ms = self._clock.monotonic_ms()
        try:
            outcome = run_round(
                plan, tables, self._spread, attempt, self._may_write, pace.niceness,
                self._is_free,
            )  # fmt: skip
        except BaseException:
            self._maintenance.suspect(tables)
            raise
        now_ms = self._clock.monotonic_ms()
        self._apply(outcome, now_ms - begun_ms)
        done = {number for number, _ in outcome.committed}
        self._back.committed(done - planner.left_behind(due, plan.items))
        troubled = {number for number, _ in {*outcome.failed, *outcome.blocked}}
        self._maintenance.suspect(troubled | (tables.keys() - done))
        names = {topic.number: topic.name for topic in topics.values()}
        self._figures.add_commits(outcome.committed, due, names, now_ms)
        self._rhythm.note(plan.items, outcome.committed, topics, now_ms)
        for number in {number for number, _ in outcome.committed}:
            self._checkpoints.note(tables[number])
        more = plan.rest or sum(t.bytes for t in tried) < sum(d.bytes for d in due)
        return more and outcome.commits > 0

    def _open_tables(
        self, numbers: set[TopicNumber], topics: Mapping[TopicNumber, Topic]
    ) -> dict[TopicNumber, Table]:
        tables = {}
        for number in sorted(numbers):
            try:
                tables[number] = self._tables.open(topics[number])
            except Exception as error:  # noqa: BLE001  (an owner may do anything)
                self._fail(
                    (number, WHOLE_TOPIC), f"its table cannot be opened: {error}"
                )
        return tables

    def _apply(self, outcome: Outcome, took_ms: int) -> None:
        """Remember what failed, so that it is not tried again at once."""
        for number, partition in outcome.committed:
            self._stuck.clear(number)
            self._stuck.clear(number, partition)
        for key, failed in outcome.failed.items():
            goes_on = self._backlog.note_failed(key, failed, self._log_starts.of)
            if not failed.stale and not goes_on:
                self._fail(key, failed.why, certain=True)
        for key, why in outcome.blocked.items():
            if key[0] not in outcome.refused:
                self._stuck.clear(key[0])  # its table would take a commit
            self._blocked.stop(key)
            self._fail(key, why, certain=True)
        for number, why in outcome.refused.items():
            self._tables.forget(number)
            self._fail((number, WHOLE_TOPIC), f"its table takes no commit: {why}")
        self._count(outcome, took_ms)

    def _fail(self, key: TopicPartition, why: str, *, certain: bool = False) -> None:
        now_ms = self._clock.monotonic_ms()
        failure = self._stuck.fail(
            key, why, now_ms, certain=certain, request_id=self._requests.newest
        )
        if failure.is_stuck:
            log_stuck(key, failure.why)

    def _count(self, outcome: Outcome, took_ms: int) -> None:
        self._pacing.note(outcome.log_bytes)
        self._figures.add_round(took_ms, outcome.rows, outcome.log_bytes)
        self._status = replace(self._status, round_ms=took_ms)
        self.counters.add_round(outcome, took_ms)
        log.debug(
            "round", ms=took_ms, rows=outcome.rows, log_bytes=outcome.log_bytes,
            files=outcome.files, commits=outcome.commits,
        )  # fmt: skip

    def _report(
        self, waiting: list[Pending], topics: Mapping[TopicNumber, Topic], now_ms: int
    ) -> None:
        """Bring the status up to date."""
        oldest = min((one.since_ms for one in waiting), default=now_ms)
        unreadable = self._tables.unreadable
        problems = [f"the log is damaged: {place}" for place in self._backlog.damage]
        problems += [*filter(None, [self._full]), *self._further.problems]
        self._status = replace(
            self._status,
            state="running",
            problems=(*problems_of(topics, self._stuck), *problems),
            pending_bytes=sum(one.bytes for one in waiting),
            oldest_pending_ms=now_ms - oldest,
            stuck=sum(1 for _ in self._stuck.stuck()),
            damaged_places=len(self._backlog.damage),
            unreadable_tables=len(unreadable),
            niceness=self._pacing.pace.niceness,
            write_amplification_percent=self.counters.amplification_percent,
            left_alone=self._left_alone(topics),
            tables=table_states(
                topics,
                waiting,
                self._ends,
                unreadable,
                self._stuck,
                now_ms,
                refusing=self._tables.refusing,
                wall_ms=self._clock.now_ms(),
            ),
        )

    def _left_alone(self, topics: Mapping[TopicNumber, Topic]) -> dict[str, str]:
        found = {} if self._rewrites is None else self._rewrites.left_alone
        return {topics[n].name: why for n, why in found.items() if n in topics}

    def _maintain(self, now_ms: int) -> None:
        if now_ms < self._maintain_at_ms:
            return
        self._maintain_at_ms = now_ms + self._maintain_every_ms
        self._maintenance.run(
            self._topics.look, self._clock.now_ms(), self._may_write,
            lambda number: not self._bars(number),
        )  # fmt: skip
