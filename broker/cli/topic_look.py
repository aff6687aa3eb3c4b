"""Once a minute: whether the topic that is consumed is there, and has more partitions.

librdkafka takes what it was assigned, and says nothing when that topic is deleted: it
might be made again, and then it goes on. New partitions it finds for a group alone.
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
from broker.clock import Clock, SystemClock

EVERY_MS: Final = 60_000
ANSWER_S: Final = 1.0
CONFIG: Final[dict[str, bool | int]] = {
    "allow.auto.create.topics": False,  # or a look would make it
    "topic.metadata.refresh.interval.ms": EVERY_MS,  # a group finds it as soon
}


class TopicLook:
    """What is known of a topic; it makes the consumer take new partitions, if no group
    assigns them, and forgets what was written of one that is gone: a commit of that
    would be taken for one that is made again, and its first records would reach nobody.
    """

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
        self._next_ms = self._clock.monotonic_ms() + EVERY_MS
        self._is_gone = False

    def added(self) -> set[int]:
        """Partitions that are read from their beginning from now on. Most calls do
        nothing; one a minute may block for a second."""
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._next_ms:
            return set()
        self._next_ms = now_ms + EVERY_MS
        found = self._partitions()
        if found is None:
            return set()
        self._report(is_gone=not found)
        return set() if self._in_group else self._taken(found - self._known)

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

    def _report(self, is_gone: bool) -> None:
        if is_gone:
            self._written.clear()
        if is_gone and not self._is_gone:
            typer.echo(
                f"lakelog: there is no topic {self._topic!r} any more; what is written "
                "to one of that name is read when it is there",
                err=True,
            )
        self._is_gone = is_gone

    def _partitions(self) -> set[int] | None:
        """Empty if it is not there; None if no broker says it."""
        try:
            listed = self._consumer.list_topics(self._topic, timeout=ANSWER_S)
        except KafkaException:
            return None
        found = listed.topics[self._topic]
        if found.error is None:
            return set(found.partitions)
        gone = found.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
        return set() if gone else None
