"""A topic that waits is found whole once its table can be read, in turns."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from broker.ids import TopicNumber
from broker.runtime.partitions.waiting_topics import (
    TAKEN_UP_A_TURN,
    LogOf,
    WaitingTopic,
    WaitingTopics,
)

ONE, OTHER = TopicNumber(1), TopicNumber(2)
log_of: Any = object()


class Loop:
    """The loop and all beside the topics that wait: tables, and what is made."""

    def __init__(self) -> None:
        self.unread = {ONE, OTHER}
        self.counts = {ONE: 2, OTHER: 2}
        self.made = Counter[tuple[int, int]]()
        self._soon: list[Callable[[], None]] = []
        lake: Any = self
        self.waiting = WaitingTopics(
            lake, self._make, self.counts.__getitem__, self._soon.append
        )

    def unreadable(self, number: TopicNumber) -> str | None:
        return "the table cannot be read" if number in self.unread else None

    def _make(
        self, number: TopicNumber, indexes: Sequence[int], made_by: LogOf
    ) -> None:
        assert made_by is log_of
        self.made.update((number, index) for index in indexes)

    def add(
        self, number: TopicNumber, *known: int, count: int = 2, is_unsaid: bool = False
    ) -> None:
        self.counts[number] = count
        waiting = WaitingTopic(log_of, frozenset(known))
        self.waiting.add(number, waiting, is_unsaid=is_unsaid)

    def turn(self) -> int:
        """Do what is due; how many partitions were made."""
        before, due = self.made.total(), self._soon.copy()
        self._soon.clear()
        for call in due:
            call()
        return self.made.total() - before


@pytest.fixture
def loop() -> Loop:
    return Loop()


def test_what_is_known_all_the_same_does_not_wait(loop: Loop) -> None:
    loop.add(ONE, 1)
    assert [loop.waiting.holds(ONE, index) for index in (0, 1)] == [True, False]
    assert not loop.waiting.holds(OTHER, 0)
    assert not loop.made
    assert not loop.waiting.is_taken_up(ONE)


def test_a_small_topic_is_known_at_once_when_its_table_can_be_read(loop: Loop) -> None:
    loop.add(ONE)
    loop.unread.clear()
    assert not loop.waiting.holds(ONE, 1)
    assert loop.made == {(ONE, 0): 1, (ONE, 1): 1}
    assert not loop.waiting.topics


def test_a_large_one_is_found_when_all_of_it_is_made(loop: Loop) -> None:
    count = 2 * TAKEN_UP_A_TURN + 1
    loop.add(ONE, count=count)
    loop.unread.clear()
    for made in (TAKEN_UP_A_TURN, 1):
        assert loop.waiting.holds(ONE, 0)
        assert loop.waiting.is_taken_up(ONE)
        assert loop.turn() == made
    assert not loop.waiting.holds(ONE, 0)
    assert len(loop.made) == count
    assert loop.turn() == 0


def test_a_turn_makes_no_more_of_many_topics_than_of_one(loop: Loop) -> None:
    numbers = [TopicNumber(n) for n in range(3 * TAKEN_UP_A_TURN)]
    for number in numbers:
        loop.add(number, is_unsaid=True)
    loop.unread.clear()
    assert not loop.waiting.is_all_said()
    assert loop.made.total() == TAKEN_UP_A_TURN
    asked = [number for number in numbers if loop.waiting.holds(number, 0)]
    assert loop.made.total() == TAKEN_UP_A_TURN
    assert len(asked) == len(numbers) - TAKEN_UP_A_TURN // 2
    turns = [loop.turn() for _ in range(6)]
    assert turns == [TAKEN_UP_A_TURN] * 5 + [0]
    assert loop.waiting.is_all_said()
    assert set(loop.made.values()) == {1}


def test_at_last_all_is_taken_up_that_can_be(loop: Loop) -> None:
    loop.add(ONE, count=3 * TAKEN_UP_A_TURN, is_unsaid=True)
    loop.add(OTHER, is_unsaid=False)
    loop.unread = {OTHER}
    assert loop.waiting.is_all_said_at_last()
    assert len(loop.made) == 3 * TAKEN_UP_A_TURN
    loop.add(OTHER, is_unsaid=True)
    assert not loop.waiting.is_all_said_at_last()


def test_one_whose_table_goes_away_again_waits_again(loop: Loop) -> None:
    loop.add(ONE, count=TAKEN_UP_A_TURN + 1)
    loop.unread.clear()
    assert loop.waiting.holds(ONE, 0)
    loop.unread = {ONE}
    assert loop.turn() == 0
    assert not loop.waiting.is_taken_up(ONE)
    assert loop.waiting.holds(ONE, 0)
    loop.unread.clear()
    assert loop.waiting.holds(ONE, 0)
    loop.turn()
    assert not loop.waiting.holds(ONE, 0)


def test_one_that_is_deleted_waits_no_more(loop: Loop) -> None:
    loop.add(ONE, count=TAKEN_UP_A_TURN + 1, is_unsaid=True)
    loop.unread.clear()
    assert not loop.waiting.is_all_said()
    loop.waiting.forget(ONE)
    assert loop.turn() == 0
    assert loop.waiting.is_all_said()
