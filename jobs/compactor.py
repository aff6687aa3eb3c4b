"""The compactor: a long-lived Spark driver that moves the log into tables.

The problem: records should stand in their table seconds after they were acknowledged,
whatever the number of topics, and Spark takes longer than that to start. The idea: one
driver that stays, looks five times a second at where segments end and tables end, and
runs one Spark job for all topics that are due. It keeps nothing that it could not find
again: the segments say what there is, the tables' logs say what they have. So it may be
killed at any instant, and the next one goes on from there.

The price: looking costs a few per cent of a core while data flow.
"""

import os
import signal
import threading
from collections.abc import Callable
from typing import Any, Final

import structlog

from broker.catalog import requests
from broker.catalog import topics as catalog_topics
from broker.catalog.catalog import Catalog
from broker.clock import Clock
from broker.settings import Settings
from broker.topics.topic import Topic
from jobs import planner
from jobs.backlog import Backlog
from jobs.maintain import Maintenance
from jobs.planner import Pending, TopicPartition
from jobs.requests import Requests
from jobs.round import Outcome, Spread, run_round
from jobs.tables import Table, Tables
from lakehouse.errors import LakehouseError

POLL_S: Final = 0.2
PAUSE_MS: Final = 1_000
STUCK_PAUSE_MS: Final = 60_000

log = structlog.get_logger("lakelog.compactor")


class Compactor:
    """One step at a time; Spark, segments and clock are handed in."""

    def __init__(
        self,
        settings: Settings,
        catalog: Catalog,
        backlog: Backlog,
        spread: Spread,
        cores: int,
        clock: Clock,
        holds_lease: Callable[[], bool],
    ) -> None:
        self._settings, self._catalog, self._clock = settings, catalog, clock
        self._backlog, self._spread, self._cores = backlog, spread, cores
        self._holds_lease = holds_lease
        warehouse = str(settings.data_dir / "tables")
        self._tables = Tables(warehouse)
        lake = settings.lake
        self._maintenance = Maintenance(
            catalog, self._tables, warehouse,
            lake.file_delete_delay_ms, lake.table_delete_delay_ms,
        )  # fmt: skip
        self._maintain_every_ms = max(
            1_000,
            min(
                lake.retention_check_ms,
                lake.file_delete_delay_ms,
                lake.table_delete_delay_ms,
            ),
        )
        self._maintain_at_ms = 0
        self._requests = Requests()
        self._paused: dict[TopicPartition, int] = {}
        self._held_told_ms = -STUCK_PAUSE_MS
        self._attempts = 0
        self.counts: dict[str, Any] = {"rounds": 0, "state": "starting"}
        """What the status file says."""

    def step(self) -> bool:
        """Look, and do what is due; True if there is more to do at once.

        Raises OSError, SQLAlchemyError, StaleSegment (try again later) and whatever
        Spark raises.
        """
        if not self._holds_lease():
            self.counts["state"] = "another compactor has the lease"
            return False
        self.counts["state"] = "running"
        now_ms = self._clock.now_ms()
        topics = {t.number: t for t in self._catalog.read(catalog_topics.load)}
        self._maintain(list(topics.values()), now_ms)
        self._backlog.refresh(now_ms)
        waiting = self._pending(topics)
        self._tell(waiting, now_ms)
        self._tell_held()
        due = planner.due(
            [one for one in waiting if self._paused.get(one.key, 0) <= now_ms],
            now_ms,
            flush_ms=self._settings.lake.flush_ms,
            flush_bytes=self._settings.lake.flush_bytes,
            asked=self._requests.topics,
        )
        if not due:
            return False
        return self._round(planner.plan(due, self._cores), topics)

    def _pending(self, topics: dict[int, Topic]) -> list[Pending]:
        """What tables lack; requests that are fulfilled are answered on the way."""
        present = [topics[n] for n in self._backlog.topics() if n in topics]
        ends = self._tables.ends(present)
        asked = self._catalog.read(requests.pending)
        for done in self._requests.look(asked, topics, self._backlog.ends, ends):
            self._catalog.change(
                lambda connection, done=done: requests.done(  # type: ignore[misc]
                    connection, done, self._clock.now_ms()
                )
            )
        readable = topics.keys() - self._tables.unreadable.keys()
        return self._backlog.pending(ends, readable)

    def _round(self, plan: planner.Round, topics: dict[int, Topic]) -> bool:
        tables = self._open_tables({item.key[0] for item in plan.items}, topics)
        self._attempts += 1
        attempt = f"{os.getpid():x}-{self._clock.now_ms():x}-{self._attempts:x}"
        begun_ms = self._clock.monotonic_ms()
        outcome = run_round(plan, tables, self._spread, attempt, self._holds_lease)
        self._settle(outcome, self._clock.monotonic_ms() - begun_ms)
        return plan.rest and outcome.commits > 0

    def _open_tables(
        self, numbers: set[int], topics: dict[int, Topic]
    ) -> dict[int, Table]:
        tables = {}
        for number in sorted(numbers):
            try:
                tables[number] = self._tables.open(topics[number])
            except (LakehouseError, OSError) as error:
                name = topics[number].name
                log.error("the table cannot be opened", topic=name, why=str(error))
                self._pause_topic(number)
        return tables

    def _settle(self, outcome: Outcome, took_ms: int) -> None:
        """Remember what failed, so that it is not tried again at once."""
        now_ms = self._clock.now_ms()
        for key, failed in outcome.failed.items():
            if not failed.stale:
                log.error(
                    "a partition cannot be compacted",
                    topic=key[0], partition=key[1], why=failed.why,
                )  # fmt: skip
                self._paused[key] = now_ms + STUCK_PAUSE_MS
        for number in outcome.refused:
            self._tables.forget(number)
            self._pause_topic(number)
        self._count(outcome, took_ms)

    def _pause_topic(self, number: int) -> None:
        until_ms = self._clock.now_ms() + PAUSE_MS
        for key in self._backlog.ends:
            if key[0] == number:
                self._paused[key] = until_ms

    def _count(self, outcome: Outcome, took_ms: int) -> None:
        counts = self.counts
        counts["rounds"] += 1
        counts["round_ms"] = took_ms
        counts["rounds_ms"] = counts.get("rounds_ms", 0) + took_ms
        for name in ("rows", "log_bytes", "file_bytes", "files", "commits"):
            counts[name] = counts.get(name, 0) + getattr(outcome, name)
        log.debug(
            "round", ms=took_ms, rows=outcome.rows, log_bytes=outcome.log_bytes,
            files=outcome.files, commits=outcome.commits,
        )  # fmt: skip

    def _tell(self, waiting: list[Pending], now_ms: int) -> None:
        oldest = min((one.since_ms for one in waiting), default=now_ms)
        self.counts |= {
            "pending_bytes": sum(one.bytes for one in waiting),
            "oldest_pending_ms": now_ms - oldest,
            "stuck": len(
                {key for key, until in self._paused.items() if until > now_ms}
                | self._backlog.held.keys()
            ),
            "damaged_places": len(self._backlog.damage),
            "unreadable_tables": len(self._tables.unreadable),
        }

    def _tell_held(self) -> None:
        """Each minute, the partitions that stop before damage in a segment."""
        if self._clock.monotonic_ms() - self._held_told_ms < STUCK_PAUSE_MS:
            return
        for key, hole in self._backlog.held.items():
            self._held_told_ms = self._clock.monotonic_ms()
            log.error(
                "a partition cannot be compacted",
                topic=key[0], partition=key[1], why=str(hole),
            )  # fmt: skip

    def _maintain(self, topics: list[Topic], now_ms: int) -> None:
        if now_ms < self._maintain_at_ms:
            return
        self._maintain_at_ms = now_ms + self._maintain_every_ms
        self._maintenance.run(topics, now_ms, self._holds_lease)


def run(
    settings: Settings,
    *,
    master: str = "local[*]",
    announce: Callable[[str], None] = lambda line: None,
) -> int:
    """Compact until SIGTERM or SIGINT; the process's exit code.

    ``announce`` gets ``compactor ready`` once Spark can work.
    """
    from jobs.driver import Driver

    stop = threading.Event()
    with Driver(settings, master) as driver:
        _stop_on_signals(stop)
        announce("compactor ready")
        return _loop(driver, stop)


def _loop(driver: Any, stop: threading.Event) -> int:
    while not stop.is_set():
        try:
            if not driver.compactor.step():
                stop.wait(POLL_S)
        except driver.passing_troubles as error:
            log.warning("a round failed", why=_first_line(error))
            if not driver.spark_lives():
                log.error("Spark is gone")
                return 1
            stop.wait(PAUSE_MS / 1000)
    return 0


def _first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).strip().splitlines()[:1]}"


def _stop_on_signals(stop: threading.Event) -> None:
    """The first signal ends the loop after the round; the second ends all at once."""

    def ask(number: int, frame: Any) -> None:
        if stop.is_set():
            os._exit(128 + number)
        stop.set()

    signal.signal(signal.SIGTERM, ask)
    signal.signal(signal.SIGINT, ask)
