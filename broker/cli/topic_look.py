"""Once a minute: whether the topic that is consumed is there, and has more partitions.

librdkafka takes what it was assigned, and says nothing when that topic is deleted: it
might be made again, and then it goes on where it was in the old one. So of one that was
found gone nothing stays assigned until it is found again, which is looked for every few
seconds. New partitions librdkafka finds for a group alone.

A member that is assigned nothing looks more often if it wants to be at an end: there
may be more members than partitions, the topic may be gone, or no broker answers, and
librdkafka is silent in each case.
"""

from collections.abc import Iterable
from typing import Final

import typer
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)

from broker.cli.failures import UserError
from broker.cli.silence import LONG_MS
from broker.clock import Clock, SystemClock

EVERY_MS: Final = 60_000
UNASSIGNED_EVERY_MS: Final = 3_000
ANSWER_S: Final = 1.0
CONFIG: Final[dict[str, bool | int]] = {
    "allow.auto.create.topics": False,  # or a look would make it
    "topic.metadata.refresh.interval.ms": EVERY_MS,  # a group finds it as soon
}


class TopicLook:
    """What is known of a topic; it makes the consumer take new partitions and leave
    those of one that is gone, if no group assigns them, and forgets what was written of
    that: a commit of it would be taken for one that is made again, and its first
    records would reach nobody."""

    def __init__(
        self,
        consumer: Consumer,
        topic: str,
        known: Iterable[int],
        in_group: bool,
        written: dict[int, int],
        clock: Clock | None = None,
    ) -> None:
        self._consumer, self._topic, self._in_group = consumer, topic, in_group
        self._written = written
        self._clock = clock or SystemClock()
        self._known = set(known)
        self._looked_ms = self._clock.monotonic_ms()
        self._is_gone = False
        self._unassigned_next_ms: int | None = None
        self._unanswered_since_ms: int | None = None

    def added(self) -> set[int]:
        """Partitions that are read from their beginning from now on. Most calls do
        nothing; one a minute may block for a second, or every few seconds one while
        the topic is gone."""
        every_ms = UNASSIGNED_EVERY_MS if self._is_gone else EVERY_MS
        if self._clock.monotonic_ms() - self._looked_ms < every_ms:
            return set()
        found = self._look()
        if self._in_group or not found:
            return set()
        return self._taken(found - self._known)

    def note_assigned(self) -> None:
        """What was not answered while nothing was assigned counts no more."""
        self._unassigned_next_ms = self._unanswered_since_ms = None

    def await_assignment(self) -> None:
        """While nothing is assigned: `is_there`, every few seconds."""
        now_ms = self._clock.monotonic_ms()
        if self._unassigned_next_ms is None:
            self._unassigned_next_ms = now_ms + UNASSIGNED_EVERY_MS
        elif now_ms >= self._unassigned_next_ms:
            self._unassigned_next_ms = now_ms + UNASSIGNED_EVERY_MS
            self.is_there()

    def is_there(self) -> bool:
        """Whether a broker says so when it is asked now; may block for a second.

        Raises:
            UserError: it is gone, or no such look was answered for long.
        """
        now_ms = self._clock.monotonic_ms()
        if self._look() is not None:
            self._unanswered_since_ms = None
            self.check()
            return True
        if self._unanswered_since_ms is None:
            self._unanswered_since_ms = now_ms
        if now_ms - self._unanswered_since_ms >= LONG_MS:
            raise UserError(
                f"not at the end: nothing of {self._topic} is assigned, and no broker "
                f"answered for {LONG_MS // 1000} s"
            )
        return False

    def check(self) -> None:
        """Raises UserError if it was gone at the last look: its end never comes."""
        if self._is_gone:
            what = f"there is no topic {self._topic!r} any more"
            raise UserError(f"not at its end: {what}")

    def _taken(self, new: set[int]) -> set[int]:
        if new:
            self._consumer.incremental_assign(
                [TopicPartition(self._topic, n, OFFSET_BEGINNING) for n in sorted(new)]
            )
        self._known |= new
        return new

    def _forget(self) -> None:
        """What is known of one that is gone is nothing about one that is made again."""
        self._written.clear()
        if not self._in_group:
            self._known = set()
            self._consumer.unassign()

    def _report(self, is_gone: bool) -> None:
        if is_gone:
            self._forget()
        if is_gone and not self._is_gone:
            typer.echo(
                f"lakelog: there is no topic {self._topic!r} any more; what is written "
                "to one of that name is read when it is there",
                err=True,
            )
        self._is_gone = is_gone

    def _look(self) -> set[int] | None:
        """Its partitions; None if no broker answers."""
        self._looked_ms = self._clock.monotonic_ms()
        try:
            listed = self._consumer.list_topics(self._topic, timeout=ANSWER_S)
        except KafkaException:
            return None
        found = listed.topics[self._topic]
        code = None if found.error is None else found.error.code()
        if code not in (None, KafkaError.UNKNOWN_TOPIC_OR_PART):
            return self._known  # it has no leader just now, say
        self._report(is_gone=not found.partitions)
        return set(found.partitions)
