"""Follows the tables of all topics on one thread.

The problem: the broker learns what was compacted from the Delta logs alone, and there
may be thousands. The idea: one thread goes around all tables every quarter of a second;
a table without news costs some microseconds. Whoever wants to know of an advance is
called on the event loop.

The price: what is in a table is noticed up to one round late.
"""

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from broker.ids import TopicNumber
from broker.lake.table import TopicTable

CallSoon = Callable[[Callable[[], None]], Any]
OnAdvance = Callable[[TopicNumber], None]

_LOAD_THREADS = 4
_CATCH_UP_ROUNDS = 20


class Follower:
    """Polls tables by topic number until closed.

    ``call_soon`` hands a callable to the loop from any thread; ``on_advance`` gets the
    number of a topic whose table changed, on the loop.
    """

    def __init__(
        self, follow_ms: int, call_soon: CallSoon, on_advance: OnAdvance
    ) -> None:
        self._follow_ms = follow_ms
        self._call_soon = call_soon
        self._on_advance = on_advance
        self._tables: dict[TopicNumber, TopicTable] = {}
        self._wake = threading.Event()
        self._closed = False
        self._thread = threading.Thread(
            target=self._run, name="lake-follower", daemon=True
        )

    def start(self, tables: Iterable[tuple[TopicNumber, TopicTable]]) -> None:
        """Load these tables, then follow them. Blocks until all are loaded."""
        self._tables = dict(tables)
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
        self._wake.set()

    def close(self) -> None:
        """Stop. Blocks until the round under way is done."""
        self._closed = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        rounds = 0
        while not self._closed:
            self._wake.wait(self._follow_ms / 1000)
            self._wake.clear()
            rounds += 1
            self._round(catch_up=rounds % _CATCH_UP_ROUNDS == 0)

    def _round(self, *, catch_up: bool) -> None:
        for number, table in self._tables.items():
            if self._closed:
                return
            if catch_up:
                table.catch_up()
            if table.poll():
                self._notify(number)

    def _notify(self, number: TopicNumber) -> None:
        if not self._closed:
            self._call_soon(lambda: self._on_advance(number))
