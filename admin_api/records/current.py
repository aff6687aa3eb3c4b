"""What a topic is now, for records that go there.

The problem: librdkafka's producer believes for five minutes what it once learned of a
topic. Meanwhile partitions were added, to which it sends nothing, or the topic was
deleted and made again. The idea: the broker is asked before the first record of a
request, and within a stream again after a second, or where a record names a partition
that was not there; what differs from what the producer learned, it learns. Java's
producer asks, too, before it says that there is no such partition.
"""

import asyncio

from confluent_kafka import KafkaException

from admin_api.kafka import GONE, Kafka
from admin_api.records.producer import Identity, RecordProducer

LOOK_S = 1.0
"""So old may be what is known while a stream goes on."""
MISSED_S = 0.1
"""So old where a partition is missed: who names many that are not there waits."""
ANSWER_S = 1.0
"""So long a record of a stream waits for the broker to say: less than a plane that
stops gives to what it has taken, which is reported all the same."""


class CurrentTopic:
    """A topic, as the broker and the producer know it."""

    def __init__(self, name: str, kafka: Kafka, producer: RecordProducer) -> None:
        self.name = name
        self.partitions = 0
        self._kafka, self._producer = kafka, producer
        self._looked_s = 0.0

    async def look(self) -> None:
        """Ask the broker. Raises KafkaException, also where there is no such topic."""
        self._looked_s = asyncio.get_running_loop().time()
        [found] = await self._kafka.describe_topics([self.name])
        self.partitions = len(found.partitions)
        uuid = found.topic_id
        identity = Identity(
            uuid.get_most_significant_bits(),
            uuid.get_least_significant_bits(),
            self.partitions,
        )
        if not self._producer.knows(self.name, identity):
            await asyncio.to_thread(self._producer.learn, self.name, identity)

    async def look_again(self, partition: int | None) -> None:
        """Ask if what is known is old. A broker that does not answer changes nothing:
        it may be there again before the record's time is over.

        Raises KafkaException where there is no such topic (any more).
        """
        is_there = partition is None or partition < self.partitions
        age_s = asyncio.get_running_loop().time() - self._looked_s
        if age_s < (LOOK_S if is_there else MISSED_S):
            return
        try:
            await asyncio.wait_for(self.look(), ANSWER_S)
        except TimeoutError:
            self._looked_s = asyncio.get_running_loop().time()
        except KafkaException as error:
            if error.args[0].code() in GONE:
                raise
