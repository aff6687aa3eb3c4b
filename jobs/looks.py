"""Which tables are looked at in a step, for something to write anew: in turns.

The problem: a look at a table costs a millisecond for a thousand files, and there may
be thousands of tables. The idea: a step looks for a few milliseconds, once a second,
and goes on behind the table of the last look.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeVar

from broker.clock import Clock
from jobs.tables import Table

LOOK_EVERY_MS: Final = 1_000
LOOK_MS: Final = 5
"""So long a step looks at tables, and at one at least."""

Found = TypeVar("Found")


@dataclass(slots=True)
class Looks:
    """Of one who looks."""

    clock: Clock
    _last: int = -1
    _next_ms: int = 0

    def soon(self) -> None:
        """Look in the next step again."""
        self._next_ms = 0

    def first(
        self,
        tables: Iterable[Table],
        is_due: Callable[[Table], bool],
        find: Callable[[Table], Found | None],
    ) -> tuple[Table, Found] | None:
        """The first of the tables that are due in which something is found, behind the
        one of the last look first; None also if it is too early, or took too long."""
        begun_ms = self.clock.monotonic_ms()
        if begun_ms < self._next_ms:
            return None
        self._next_ms = begun_ms + LOOK_EVERY_MS
        for table in self._in_turn(filter(is_due, tables)):
            self._last = table.topic.number
            found = find(table)
            if found is not None:
                return table, found
            if self.clock.monotonic_ms() - begun_ms >= LOOK_MS:
                return None
        return None

    def _in_turn(self, tables: Iterable[Table]) -> list[Table]:
        def place(table: Table) -> tuple[bool, int]:
            return table.topic.number <= self._last, table.topic.number

        return sorted(tables, key=place)
