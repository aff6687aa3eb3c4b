"""A topic that is followed: whether it is there, and what it has more than before.

librdkafka waits in silence for a topic that was deleted, and does not know partitions
that were added to it. So the broker is asked while a tail goes on. All that a partition
has that was added meanwhile came meanwhile: it is followed from its beginning.

A topic that is deleted and made again between two of these questions is another one,
whose offsets say nothing of the first: librdkafka reads on where it was, behind what
the new one has had by then. So the topic's id is compared, and following ends.
"""

from collections.abc import Iterable
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, TopicPartition

from admin_api.kafka import Kafka
from admin_api.problems import Problem
from admin_api.reading.plan import PARTITIONS_MAX, Followed
from admin_api.reading.readers import Reader


class Following:
    """What a reader follows of a topic: chosen partitions, or all there are."""

    def __init__(
        self, kafka: Kafka, topic: str, reader: Reader, followed: Followed
    ) -> None:
        self._kafka, self._topic, self._reader = kafka, topic, reader
        self._topic_id, self._followed = followed.topic_id, set(followed.starts)

    async def look(self, *, all_of_it: bool) -> None:
        """Ask the broker; with ``all_of_it`` what was added is followed from now on.

        Raises KafkaException, also where there is no such topic any more; Problem 40403
        where there is another one of its name, 400 where it has become too large to be
        followed.
        """
        [found] = await self._kafka.describe_topics([self._topic])
        if str(found.topic_id) != self._topic_id:
            raise Problem(
                40403,
                f"Topic {self._topic} was deleted and made again: ask again to follow "
                "the new one, with `at` from its beginning.",
            )
        added = {one.id for one in found.partitions} - self._followed
        if not added or not all_of_it:
            return
        if len(self._followed) + len(added) > PARTITIONS_MAX:
            raise Problem(400, f"partition: choose at most {PARTITIONS_MAX} of them.")
        await self._reader.run(lambda consumer, _: self._follow(consumer, added))
        self._followed |= added

    def _follow(self, consumer: Any, added: Iterable[int]) -> None:
        consumer.list_topics(self._topic, timeout=self._kafka.timeout_s)  # learns them
        consumer.incremental_assign(
            [TopicPartition(self._topic, one, OFFSET_BEGINNING) for one in added]
        )
