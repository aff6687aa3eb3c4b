"""Looks at tables: in turns, once a second, and not for long."""

from types import SimpleNamespace
from typing import Any

from jobs.looks import LOOK_EVERY_MS, LOOK_MS, Looks
from tests.support.clock import ManualClock


class Tables:
    """So many tables; a look at each takes as long as is said."""

    def __init__(self, count: int, look_ms: int = 0) -> None:
        self.clock, self.look_ms = ManualClock(), look_ms
        self.looks, self.seen = Looks(self.clock), list[int]()
        self.tables: list[Any] = [
            SimpleNamespace(topic=SimpleNamespace(number=n)) for n in range(count)
        ]

    def look(self, *found: int, after_ms: int = LOOK_EVERY_MS) -> int | None:
        """The number of the table in which one of ``found`` was found."""
        self.clock.advance(after_ms)

        def find(table: Any) -> int | None:
            self.seen.append(table.topic.number)
            self.clock.advance(self.look_ms)
            return table.topic.number if table.topic.number in found else None

        first = self.looks.first(self.tables, lambda t: t.topic.number != 3, find)
        if first is None:
            return None
        assert first[0].topic.number == first[1]
        return first[1]


def test_tables_are_looked_at_in_turns_and_only_those_that_are_due() -> None:
    tables = Tables(6)
    assert [tables.look(0, 1, 3, 5) for _ in range(5)] == [0, 1, 5, 0, 1]
    assert tables.seen == [0, 1, 2, 4, 5, 0, 1]


def test_a_look_comes_once_a_second_or_soon() -> None:
    tables = Tables(1)
    assert tables.look(0) == 0
    assert tables.look(0, after_ms=LOOK_EVERY_MS - 1) is None
    assert tables.look(0, after_ms=1) == 0
    tables.looks.soon()
    assert tables.look(0, after_ms=0) == 0


def test_a_look_takes_not_long_and_goes_on_behind_it() -> None:
    tables = Tables(100, look_ms=2)
    assert tables.look() is None
    assert tables.seen == [0, 1, 2]
    tables.look_ms = 10 * LOOK_MS
    assert tables.look() is None
    assert tables.seen == [0, 1, 2, 4]
