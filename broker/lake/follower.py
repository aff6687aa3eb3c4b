"""Follows the tables of all topics on one thread.

The problem: the broker learns what was compacted from the Delta logs alone, and there
may be thousands, nearly all at rest. The idea: one thread looks every quarter of a
second at those whose logs moved (`lakehouse.watching` knows which), and at each that
cannot be read. Whoever wants to know of an advance is called on the event loop.

The price: what is in a table is noticed up to one round late; where the file system
does not tell of it, up to a second more.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from broker.ids import TopicNumber
from broker.lake.table import TopicTable
from lakehouse.watching.log_looks import LogLooks
from lakehouse.watching.log_watch import LogWatch

CallSoon = Callable[[Callable[[], None]], Any]
OnAdvance = Callable[[TopicNumber], None]

_LOAD_THREADS = 4
_CATCH_UP_ROUNDS = 20


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class Follower:
    """Polls tables by topic number until closed.

    ``call_soon`` hands a callable to the loop from any thread; ``on_advance`` gets the
    number of a topic whose table changed, on the loop.
    """

    def __init__(
        self,
        follow_ms: int,
        call_soon: CallSoon,
        on_advance: OnAdvance,
        watch: LogWatch,
        monotonic_ms: Callable[[], int] = _monotonic_ms,
    ) -> None:
        self._watch, self._looks = watch, LogLooks(watch)
        self._monotonic_ms = monotonic_ms
        self._looked: Mapping[TopicNumber, TopicTable] = {}
        self._follow_ms = follow_ms
        self._call_soon = call_soon
        self._on_advance = on_advance
        self._tables: dict[TopicNumber, TopicTable] = {}
        self._wake = threading.Event()
        self._closed = self._is_woken = False
        self._thread = threading.Thread(
            target=self._run, name="lake-follower", daemon=True
        )

    def start(self, tables: Iterable[tuple[TopicNumber, TopicTable]]) -> None:
        """Load these tables, then follow them. Blocks until all are loaded."""
        self._tables = dict(tables)
        self._keep()
        with ThreadPoolExecutor(_LOAD_THREADS, "lake-load") as pool:
            list(pool.map(TopicTable.poll, self._tables.values()))
        self._thread.start()

    def add(self, number: TopicNumber, table: TopicTable) -> None:
        """Follow this table, too."""
        self._tables = {**self._tables, number: table}

    def drop(self, number: TopicNumber) -> None:
        """Follow this one no more."""
        self._tables = {n: t for n, t in self._tables.items() if n != number}

    def get(self, number: TopicNumber) -> TopicTable | None:
        """The table of a topic; any thread may ask."""
        return self._tables.get(number)

    def items(self) -> list[tuple[TopicNumber, TopicTable]]:
        """(Topic number, table) of all that are followed; any thread may ask."""
        return list(self._tables.items())

    def wake(self) -> None:
        """Poll all tables now, not at the next interval."""
        self._is_woken = True
        self._wake.set()

    def close(self) -> None:
        """Stop. Blocks until the round under way is done."""
        self._closed = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()
        self._watch.close()

    def _run(self) -> None:
        rounds = 0
        while not self._closed:
            self._wake.wait(self._follow_ms / 1000)
            self._wake.clear()
            rounds += 1
            self._round(catch_up=rounds % _CATCH_UP_ROUNDS == 0)

    def _round(self, *, catch_up: bool) -> None:
        """``catch_up``: look at all of the logs that moved of late."""
        self._keep()
        if self._is_woken:
            self._is_woken = False
            self._looks.all()
        now_ms = self._monotonic_ms()
        anew, recent = self._looks.due(now_ms)
        for number in map(TopicNumber, anew | recent):
            if self._closed:
                return
            self._look(number, now_ms, is_anew=catch_up or number in anew)

    def _look(self, number: TopicNumber, now_ms: int, *, is_anew: bool) -> None:
        table = self._looked[number]
        before = table.view
        if is_anew:
            table.retry()
            table.catch_up()
        table.poll()
        view = table.view
        if view is not before:
            self._notify(number)
        if view is not before or view.unreadable is not None or view.torn is not None:
            self._looks.moved(number, now_ms)

    def _keep(self) -> None:
        """Look at the tables that are followed now."""
        tables, before = self._tables, self._looked
        if tables is before:
            return
        for number in before.keys() - tables.keys():
            self._looks.drop(number)
        for number, table in tables.items():
            if before.get(number) is not table:
                self._looks.add(number, table.path)
        self._looked = tables

    def _notify(self, number: TopicNumber) -> None:
        if not self._closed:
            self._call_soon(lambda: self._on_advance(number))
