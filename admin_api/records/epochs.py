"""Which records librdkafka may have sent under two epochs.

The problem: librdkafka takes a new epoch whenever a record fails, whatever for, since
the sequence has a gap there. What is on its way is answered under the old one first.
But what was on its way over a connection that is lost is sent again, and then under the
new one: a broker cannot tell that it has it already. The idea: a record is in doubt on
whose way both happened, in either order: another failed, and a connection was lost.
librdkafka tells of both before it tells what came of the records that it sent again.
The price: one that was answered under the old epoch after all is in doubt as well.

Records are numbered as they are sent. One thread sends; one, perhaps another, hears.
"""

from dataclasses import dataclass


@dataclass(slots=True)
class _Event:
    """What happened last of its kind, and what was on its way then."""

    last: int = 0
    """The last record that was sent before."""
    waiting: int = 0
    """How many of those up to it are on their way still."""


class Epochs:
    """The records of one producer."""

    def __init__(self) -> None:
        self._sent = self._ended = 0
        self._failed, self._late, self._lost = _Event(), _Event(), _Event()

    def sent(self) -> int:
        """A record is about to be sent; its number."""
        self._sent += 1
        return self._sent

    def unsent(self) -> None:
        """It was not."""
        self._sent -= 1

    def failed(self, *, is_late: bool) -> None:
        """A record failed, perhaps because nobody confirmed it in time."""
        self._failed = self._now()
        if is_late:
            self._late = self._now()

    def lost(self) -> None:
        """A connection was lost."""
        self._lost = self._now()

    def ended(self, number: int) -> bool:
        """It is known what came of a record; whether it was in doubt."""
        self._ended += 1
        for event in (self._late, self._lost):
            event.waiting -= number <= event.last
        return number <= min(self._failed.last, self._lost.last)

    def any_with_late(self) -> bool:
        """Whether any is on its way that a late one put in doubt; each is told once."""
        event = min(self._late, self._lost, key=lambda event: event.last)
        found = event.waiting > 0
        event.waiting = min(event.waiting, 0)
        return found

    def _now(self) -> _Event:
        return _Event(self._sent, self._sent - self._ended)
