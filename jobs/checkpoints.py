"""Checkpoints of the tables' logs, after the commits and not in them.

The problem: who opens a table reads all entries since its last checkpoint, and making
one costs as much as the table has files: a second of a hundred thousand. No round
should wait for that, and a thousand tables that are committed to together come to their
hundredth version together. The idea: whichever is due waits here; each step of the
compactor makes checkpoints for a fifth of a second, and at least one.

What expired of a log goes behind a checkpoint, but once an hour of each table: for that
the log is listed, and the checkpoint that stands for what goes is read.

The price: a checkpoint comes some versions late; nobody minds. One that fails is told,
and tried again at the table's next interval.
"""

from collections.abc import Callable
from typing import Final

import structlog

from broker.clock import Clock
from broker.ids import TopicNumber
from jobs.tables import Table
from lakehouse.log.delta_log import Snapshot
from lakehouse.log.expiry import clean_up
from lakehouse.log.proven_checkpoint import make_checkpoint
from lakehouse.properties import CHECKPOINT_INTERVAL

STEP_MS: Final = 200
CLEAN_UP_MS: Final = 3_600_000
_INTERVAL: Final = "delta.checkpointInterval"
_DIGITS: Final = 18
"""More say no more: it never comes. Of thousands int() makes no number."""

log = structlog.get_logger("lakelog.compactor")


class Checkpoints:
    """The tables whose checkpoint is due, and at which version."""

    def __init__(self, table: Callable[[TopicNumber], Table | None], clock: Clock):
        self._table, self._clock = table, clock
        self._due: dict[TopicNumber, int] = {}
        self._cleaned_ms: dict[TopicNumber, int] = {}

    def note(self, table: Table) -> None:
        """A commit landed in this table."""
        version = due_version(table.snapshot)
        if version is not None:
            self._due[table.topic.number] = version

    def make(self, go_on: Callable[[], bool]) -> None:
        """Make some of what is due; ``go_on`` is asked before each. Failures are told.
        Blocks."""
        begun_ms = self._clock.monotonic_ms()
        while self._due and go_on():
            number = next(iter(self._due))
            version, table = self._due.pop(number), self._table(number)
            if table is not None and _is_made(table, version) and self._cleans(number):
                self._clean_up(table)
            if self._clock.monotonic_ms() - begun_ms >= STEP_MS:
                return

    def _cleans(self, number: TopicNumber) -> bool:
        """Whether the log of a table is to be cleaned now; noted as done."""
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._cleaned_ms.get(number, now_ms - CLEAN_UP_MS) < CLEAN_UP_MS:
            return False
        self._cleaned_ms[number] = now_ms
        return True

    def _clean_up(self, table: Table) -> None:
        try:
            clean_up(table.snapshot, self._clock.now_ms())
        except Exception as error:  # noqa: BLE001  (an owner may do anything to a table)
            log.warning(
                "a table's log is not cleaned", topic=table.topic.name, why=str(error)
            )


def due_version(snapshot: Snapshot) -> int | None:
    """The version that should be a checkpoint, if the newest one is older."""
    said = snapshot.configuration.get(_INTERVAL, "")[:_DIGITS]
    interval = int(said) if said.isdecimal() and int(said) else CHECKPOINT_INTERVAL
    version = snapshot.version - snapshot.version % interval
    return version if version > max(0, snapshot.checkpoint) else None


def _is_made(table: Table, version: int) -> bool:
    """Make a checkpoint; whether it was done."""
    table.snapshot.checkpoint = version
    try:
        damaged = make_checkpoint(table.snapshot, version)
        table.checkpoint_is_seen()
    except Exception as error:  # noqa: BLE001  (an owner may do anything to a table)
        log.warning("no checkpoint", topic=table.topic.name, why=str(error))
        return False
    if damaged is not None:
        log.warning("a damaged checkpoint is put aside", table=table.path, why=damaged)
    return True
