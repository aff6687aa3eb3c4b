"""Records that come all the time into many topics of one partition, and one who reads
them as they come.

The record at offset n has the value ``vn``: one idempotent producer sends all, so that
whatever is read says whether anything is missing, doubled or out of order.
"""

from collections import defaultdict
from collections.abc import Iterable

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from tests.support.goes_on import GoesOn
from tests.support.patience import STUCK_S, wait_until

PAUSE_S = 0.1


def value_at(offset: int) -> bytes:
    return b"v%d" % offset


class Trickle(GoesOn):
    """A record to each topic every ``pause_s``; ``acknowledged``: how many are."""

    def __init__(
        self, bootstrap: str, topics: Iterable[str], pause_s: float = PAUSE_S
    ) -> None:
        super().__init__()
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5}
        )
        self._pause_s = pause_s
        self._sent = dict.fromkeys(topics, 0)
        self.acknowledged = dict.fromkeys(topics, 0)

    def send(self, count: int) -> None:
        """So many to each topic, before it goes on by itself; all acknowledged."""
        for _ in range(count):
            self._send_one_each()
        assert self._producer.flush(STUCK_S) == 0

    def after_more(self, topic: str, count: int = 1) -> int:
        """How many are acknowledged, once that are so many more than now."""
        wanted = self.acknowledged[topic] + count
        wait_until(lambda: self.acknowledged[topic] >= wanted)
        return self.acknowledged[topic]

    def work(self) -> None:
        while not self.ends.wait(self._pause_s):
            self._send_one_each()
            self._producer.poll(0)
        assert self._producer.flush(STUCK_S) == 0

    def _send_one_each(self) -> None:
        for topic, number in self._sent.items():
            self._producer.produce(
                topic, value_at(number), partition=0, callback=self._done
            )
            self._sent[topic] = number + 1

    def _done(self, error: object, message: object) -> None:
        assert error is None, error
        topic, offset = message.topic(), message.offset()  # type: ignore[attr-defined]
        assert offset == self.acknowledged[topic], (topic, offset)
        self.acknowledged[topic] += 1


class Follower(GoesOn):
    """Reads all topics from their beginnings on, live; ``read``: what it got."""

    def __init__(self, bootstrap: str, topics: Iterable[str]) -> None:
        super().__init__()
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "live"})
        self._consumer.assign([TopicPartition(t, 0, OFFSET_BEGINNING) for t in topics])
        self.read = defaultdict[str, list[tuple[int, bytes]]](list)

    def work(self) -> None:
        while not self.ends.is_set():
            for message in self._consumer.consume(1000, timeout=0.1):
                assert message.error() is None, message.error()
                found = (message.offset(), message.value())
                self.read[message.topic()].append(found)
        self._consumer.close()
