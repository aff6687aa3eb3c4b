"""Consumers: readers of both levels, members that commit, and who does both at once.

A ``Reader`` belongs to no group. A ``Member`` commits where it stands. A ``Processor``
makes one record of each that is committed, and commits where it stands with them: each
value says which record it was made of.
"""

import threading
from collections.abc import Iterable
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from tests.semantics.history import Recorder, now
from tests.semantics.producers import (
    SOURCE,
    TRY_S,
    Over,
    Participant,
    Transactor,
    die,
)
from tests.support.patience import Patience

SINK = "out"
PROCESSORS, MEMBERS = "processors", "members"
SESSION_MS = 3_000
"""Whoever died in a group is waited for so long. Half of what Kafka allows by default;
the story's broker allows it."""
LEVELS = {False: "read_uncommitted", True: "read_committed"}


class Positions(dict[int, int]):
    """Partition -> where its reader stands; what is read is written down."""

    def __init__(self, history: Recorder, topic: str, *, committed: bool) -> None:
        super().__init__()
        self._history, self._topic, self._committed = history, topic, committed

    def note(self, messages: Iterable[Message]) -> list[Message]:
        """The records among these, after which it stands behind them."""
        records: dict[int, list[tuple[int, str]]] = {}
        ends: dict[int, int] = {}
        found = []
        for one in messages:
            partition, error = one.partition(), one.error()
            if error is None:
                pair = one.offset(), one.value().decode()
                records.setdefault(partition, []).append(pair)
                ends[partition] = one.offset() + 1
                found.append(one)
            elif error.code() == KafkaError._PARTITION_EOF:
                ends[partition] = one.offset()
            elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                self._history.note("reset", text=error.str(), topic=self._topic)
        for partition, end in ends.items():
            self._note(partition, end, records.get(partition, []))
        return found

    def _note(self, partition: int, end: int, found: list[tuple[int, str]]) -> None:
        start = self[partition]
        if end > start or found:
            self._history.note(
                "read", topic=self._topic, partition=partition, start=start, end=end,
                records=found, committed=self._committed,
            )  # fmt: skip
            self[partition] = end


class Reader:
    """Reads a topic from its beginning, on one level."""

    def __init__(
        self, config: dict[str, Any], history: Recorder, topic: str, partitions: int,
        *, committed: bool,
    ) -> None:  # fmt: skip
        self.topic, self.partitions, self.committed = topic, partitions, committed
        self.ended: set[int] = set()
        """Partitions of which the end was seen."""
        self._history = history
        self.positions = Positions(history, topic, committed=committed)
        self.positions.update(dict.fromkeys(range(partitions), 0))
        self._consumer = Consumer(
            config
            | {
                "group.id": "nobody",
                "isolation.level": LEVELS[committed],
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "enable.partition.eof": True,
            }
        )
        self._consumer.assign(
            [TopicPartition(topic, n, OFFSET_BEGINNING) for n in range(partitions)]
        )

    def read_some(self) -> list[Message]:
        messages = self._consumer.consume(500, timeout=0.3)
        for one in messages:
            error = one.error()
            if error is not None and error.code() == KafkaError._PARTITION_EOF:
                self.ended.add(one.partition())
        return self.positions.note(messages)

    def read_all(self) -> list[Message]:
        """Up to the end of each partition; AssertionError if one has none."""
        found: list[Message] = []
        patience = Patience()
        while len(self.ended) < self.partitions:
            found += self.read_some()
            seen = (len(found), len(self.ended))
            assert patience.lasts(seen), f"{self.topic} has no end: {self.ended}"
        return found

    def ask_for_ends(self, partition: int) -> None:
        """Where a partition begins and ends, as ListOffsets says it."""
        asked, part = now(), TopicPartition(self.topic, partition)
        try:
            low, high = self._consumer.get_watermark_offsets(part, timeout=2.0)
        except KafkaException:
            return
        self._history.note(
            "ends", topic=self.topic, partition=partition, low=low, high=high,
            committed=self.committed, asked=asked,
        )  # fmt: skip

    def close(self) -> None:
        self._consumer.close()


class Readers(Participant):
    """Reads both topics on both levels, again and again from the beginning."""

    def run(self) -> None:
        threads = [
            threading.Thread(target=self._read, args=(topic, committed))
            for topic in (SOURCE, SINK)
            for committed in LEVELS
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _read(self, topic: str, committed: bool) -> None:
        looks = 0
        while not self.stopping.is_set():
            reader = Reader(
                self.client(), self.history, topic, self.partitions, committed=committed
            )
            until = self.chance.randint(20, 60)
            while not self.stopping.is_set() and until:
                reader.read_some()
                looks, until = looks + 1, until - 1
                if looks % 10 == 0:
                    reader.ask_for_ends(looks // 10 % self.partitions)
            reader.close()


class Place:
    """A place in a group that reads what is committed of ``SOURCE``."""

    def __init__(self, who: Participant, group: str) -> None:
        self.group, self._history = group, who.history
        self._stopping = who.stopping
        self.positions = Positions(who.history, SOURCE, committed=True)
        self._stood = 0
        self.consumer = Consumer(
            who.client(
                **{
                    "group.id": group,
                    "isolation.level": "read_committed",
                    "enable.auto.commit": False,
                    "auto.offset.reset": "error",
                    "session.timeout.ms": SESSION_MS,
                    "heartbeat.interval.ms": 300,
                }
            )
        )
        self.consumer.subscribe(
            [SOURCE],
            on_assign=lambda _, parts: self._stand([one.partition for one in parts]),
            on_revoke=lambda *_: self.positions.clear(),
        )

    def take(self, count: int) -> list[Message]:
        """Some records, of partitions that are its own by now."""
        stood = self._stood
        messages = self.consumer.consume(count, timeout=0.3)
        if stood != self._stood:  # some may be of before
            self.go_back()
            return []
        return self.positions.note(
            m for m in messages if m.partition() in self.positions
        )

    def go_back(self) -> None:
        """Stand again where the group stands."""
        if self.positions:
            self._stand(list(self.positions))

    def _stand(self, partitions: list[int]) -> None:
        """Stand where the group stands; at its beginning that is 0.

        librdkafka 2.16, told of the beginning by its name, asks for the offset; an
        answer that comes after it was told of another place makes it ask again half a
        second later, and go back to the beginning then.
        """
        self._stood += 1
        self.positions.clear()
        self.positions |= self._committed(partitions)
        self.consumer.assign(
            [
                TopicPartition(SOURCE, number, offset)
                for number, offset in self.positions.items()
            ]
        )

    def _committed(self, partitions: list[int]) -> dict[int, int]:
        """Where the group stands, asked until it is answered; and noted."""
        patience = Patience()
        wanted = [TopicPartition(SOURCE, number) for number in partitions]
        while wanted:
            asked = now()
            try:
                found = self.consumer.committed(wanted, timeout=TRY_S)
            except KafkaException:
                if self._stopping.is_set():
                    die()  # it may wait for whom only its own follower can abort
                assert patience.lasts(), "nobody says where the group stands"
                continue
            offsets = {one.partition: max(one.offset, -1) for one in found}
            self._history.note("stands", group=self.group, offsets=offsets, asked=asked)
            return {number: max(offset, 0) for number, offset in offsets.items()}
        return {}


class Member(Participant):
    """A member that commits where it stands, outside of transactions."""

    def run(self) -> None:
        place = Place(self, MEMBERS)
        while not self.stopping.is_set():
            read = place.take(self.chance.randint(1, 100))
            if read and self.chance.random() < 0.6:
                self._commit(place, {one.partition() for one in read})
        place.consumer.close()

    def _commit(self, place: Place, partitions: set[int]) -> None:
        offsets = {number: place.positions[number] for number in sorted(partitions)}
        self.history.note("committing", group=MEMBERS, offsets=offsets)
        at = [TopicPartition(SOURCE, number, o) for number, o in offsets.items()]
        try:
            answered = place.consumer.commit(offsets=at, asynchronous=False)
        except KafkaException:
            return
        done = {one.partition: one.offset for one in answered if one.error is None}
        self.history.note("committed", group=MEMBERS, offsets=done)


class Processor(Transactor):
    """Reads what is committed and makes one record of each, once."""

    def run(self) -> None:
        try:
            self.begin_life()
            if not self.plan["only_begins"]:
                self.process_all()
        except Over:
            pass

    def process_all(self) -> None:
        self.group = Place(self, PROCESSORS)
        try:
            while not self.stopping.is_set():
                count = 500 if self.plan["calm"] else self.chance.randint(1, 60)
                self.read = self.group.take(count)
                if self.read:
                    self.transact()
        finally:
            self.group.consumer.close()

    def fill(self) -> None:
        for one in self.read:
            made_of = f"{one.partition()}:{one.offset()}"
            self.send(SINK, one.partition(), self.transaction, made_of)
        self.may_die("sent")
        self.offer()
        self.may_die("offered")

    def closed(self, *, is_kept: bool) -> None:
        """What was not kept is read again."""
        if not is_kept:
            self.group.go_back()

    def offer(self) -> None:
        """Where it stands is to be committed with the records."""
        parts = sorted({one.partition() for one in self.read})
        offsets = {number: self.group.positions[number] for number in parts}
        self.history.note(
            "offering", transaction=self.transaction, group=PROCESSORS, offsets=offsets
        )
        at = [TopicPartition(SOURCE, number, offsets[number]) for number in parts]
        mine = self.group.consumer.consumer_group_metadata()
        self.until_answered(
            lambda: self.producer.send_offsets_to_transaction(at, mine, TRY_S)
        )
