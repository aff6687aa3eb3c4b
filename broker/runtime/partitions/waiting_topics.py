"""Topics that wait for their tables, and become known when these can be read.

The problem. Of some topics the table alone knows where they end, and it could not be
read at the start: offsets would be given again. A disk that comes back brings the
tables of a thousand topics at once, and to make a log out of what a start had kept
takes a tenth of a millisecond.

The idea. Who asks for such a topic finds out whether its table can be read. Then its
logs are made, so many in a turn of the loop, of whatever topics they are; nobody finds
any of a topic's before all are there.

The price. Who asks for many of them at once is told to ask again.
"""

from collections.abc import Callable, Sequence, Set
from typing import Any, Final, NamedTuple

from broker.ids import TopicNumber, TopicPartition
from broker.log.partition import PartitionLog
from broker.runtime.ports import Tables

TAKEN_UP_A_TURN: Final = 40
"""So many get a log out of a table's end in one turn: a tenth of a millisecond each."""

LogOf = Callable[[TopicPartition], PartitionLog]
Make = Callable[[TopicNumber, Sequence[int], LogOf], None]


class WaitingTopic(NamedTuple):
    """What makes a topic's logs; which of its partitions are known all the same."""

    log_of: LogOf
    known: Set[int]


class WaitingTopics:
    """``make`` makes some partitions of a topic, but for those that are there;
    ``count_of`` tells how many it has, ``call_soon`` is the loop's."""

    def __init__(
        self,
        lake: Tables,
        make: Make,
        count_of: Callable[[TopicNumber], int],
        call_soon: Callable[[Callable[[], None]], Any],
    ) -> None:
        self._lake = lake
        self._make = make
        self._count_of = count_of
        self._call_soon = call_soon
        self.topics: dict[TopicNumber, WaitingTopic] = {}
        self._unsaid: set[TopicNumber] = set()
        """Of those: a checkpoint that is lost said it, and segments have a part."""
        self._taken_up: dict[TopicNumber, int] = {}
        """Of those that become known: how many of their partitions were looked at."""
        self._turn_left = TAKEN_UP_A_TURN
        self._is_turn_due = False

    def add(
        self, number: TopicNumber, waiting: WaitingTopic, *, is_unsaid: bool
    ) -> None:
        """A topic waits, from the start on."""
        self.topics[number] = waiting
        if is_unsaid:
            self._unsaid.add(number)

    def forget(self, number: TopicNumber) -> None:
        """It is deleted, or all of it is known."""
        self.topics.pop(number, None)
        self._unsaid.discard(number)
        self._taken_up.pop(number, None)

    def holds(self, number: TopicNumber, index: int) -> bool:
        """Whether a partition waits; its topic is taken up if it need not any more."""
        waiting = self.topics.get(number)
        if waiting is None or index in waiting.known:
            return False
        return not self._become_known(number)

    def is_taken_up(self, number: TopicNumber) -> bool:
        """Whether it will be known in a moment."""
        return number in self._taken_up

    def is_all_said(self) -> bool:
        """Whether all is known that a lost checkpoint said, or what was lost behind
        one. Of tables that can be read by now it becomes so: perhaps nobody asks for
        what is in them alone."""
        return all(self._become_known(number) for number in tuple(self._unsaid))

    def is_all_said_at_last(self) -> bool:
        """The same, and no turn of the loop is waited for."""
        is_said = self.is_all_said()
        while not is_said and self._taken_up:
            self._turn_left = TAKEN_UP_A_TURN
            self._take_up_some()
            is_said = self.is_all_said()
        return is_said

    def _become_known(self, number: TopicNumber) -> bool:
        if number not in self._taken_up and self._lake.unreadable(number) is None:
            self._taken_up[number] = 0
            self._take_up_some()
        return number not in self.topics

    def _take_up_some(self) -> None:
        """As many as this turn of the loop has time for; others in the next ones."""
        if not self._is_turn_due:
            self._is_turn_due = True
            self._call_soon(self._next_turn)
        while self._taken_up and self._turn_left:
            self._take_up(*next(iter(self._taken_up.items())))

    def _next_turn(self) -> None:
        self._is_turn_due, self._turn_left = False, TAKEN_UP_A_TURN
        if self._taken_up:
            self._take_up_some()

    def _take_up(self, number: TopicNumber, first: int) -> None:
        if self._lake.unreadable(number) is not None:
            del self._taken_up[number]  # whoever asks next begins anew
            return
        count = self._count_of(number)
        end = min(first + self._turn_left, count)
        self._make(number, range(first, end), self.topics[number].log_of)
        self._turn_left -= end - first
        if end == count:
            self.forget(number)
        else:
            self._taken_up[number] = end
