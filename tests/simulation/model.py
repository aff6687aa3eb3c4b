"""The judge: what a broker has said, and whether all of it can be true at once.

Clients tell the model what they sent and what they were told; the model raises
`Violation` when two of these cannot both be. It knows nothing of how a broker works:

* a record that was acknowledged, or read by anybody, is at its offset for ever;
* no record is at two places; one that was refused is at none;
* the records of one producer are in the order in which it sent them;
* the end of a partition never comes back to where it was, and nor does its start;
* a committed offset is never older than the last that was acknowledged;
* requests of one connection take effect in their order;
* a topic is gone when its deletion was acknowledged, and not before it was asked for;
* what it says of a transaction agrees (``transactions.py``); what is stable stays so.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tests.simulation.transactions import (
    TransactionalIds,
    TransactionModel,
    Violation,
)


@dataclass
class PartitionModel:
    """What is known of one partition."""

    name: str
    at: dict[int, bytes] = field(default_factory=dict)
    """Offset -> value, of all that was acknowledged or read."""
    place: dict[bytes, int] = field(default_factory=dict)
    sent: dict[bytes, tuple[str, int]] = field(default_factory=dict)
    """Value -> producer and its how many-th."""
    refused: dict[bytes, str] = field(default_factory=dict)
    """Value -> the error it was refused with."""
    transactions: dict[bytes, TransactionModel] = field(default_factory=dict)
    """Value -> the transaction that it is part of."""
    end: int = 0
    stable: int = 0
    """The highest end of what is committed that was told."""
    start: int = 0
    """The log start that was told, or that a deletion was acknowledged with."""
    start_asked: int = 0
    """The highest start that anybody asked for: below it, records may be gone."""

    def send(self, value: bytes, producer: str, number: int) -> None:
        assert value not in self.sent, "a value is sent once"
        self.sent[value] = (producer, number)

    def refuse(self, value: bytes, why: str) -> None:
        """The broker said that it does not take this record."""
        if value in self.place:
            self._broken(f"{value!r} is refused and is at {self.place[value]}: {why}")
        self.refused[value] = why

    def note(self, offset: int, value: bytes, how: str) -> None:
        """A record is at an offset: it was acknowledged there, or read there."""
        if value not in self.sent:
            self._broken(f"{value[:40]!r} at {offset} was never sent here ({how})")
        if value in self.refused:
            why = self.refused[value]
            self._broken(f"{value!r} is at {offset}, it was refused: {why} ({how})")
        known = self.at.setdefault(offset, value)
        if known != value:
            self._broken(f"offset {offset} was {known!r}, now {value!r} ({how})")
        other = self.place.setdefault(value, offset)
        if other != offset:
            self._broken(f"{value!r} is at {other} and at {offset} ({how})")
        self.end = max(self.end, offset + 1)

    def read(
        self,
        start: int,
        end: int,
        records: Iterable[tuple[int, bytes]],
        how: str,
        *,
        committed: bool = False,
    ) -> None:
        """A consumer read from ``start``, went on at ``end``, and got these;
        ``committed``: it reads what is committed alone."""
        got = dict(records)
        for offset, value in got.items():
            self.note(offset, value, how)
            if committed and value in self.transactions:
                self.transactions[value].committed(f"{value[:20]!r} {how}")
        for offset in range(max(start, self.start_asked), end):
            if offset in self.at and offset not in got:
                self._miss(offset, self.at[offset], how)

    def _miss(self, offset: int, value: bytes, how: str) -> None:
        """A record that is known was passed over."""
        transaction = self.transactions.get(value)
        if transaction is None:
            self._broken(f"{value!r} at {offset} is not there ({how})")
        else:
            transaction.aborted(f"{value[:20]!r} at {offset} is not there, {how}")

    def saw_stable(self, stable: int, before: int, how: str) -> None:
        """The broker said that all below is committed, or aborted."""
        if stable < before:
            self._broken(f"{before} was stable, now {stable} is ({how})")
        self.stable = max(self.stable, stable)

    def saw_end(self, end: int, before: int, how: str) -> None:
        """The broker said that the partition ends here; ``before``: what was known
        when it was asked."""
        if end < before:
            self._broken(f"the end was {before} and is {end} ({how})")
        self.end = max(self.end, end)

    def saw_start(self, start: int, before: int, how: str) -> None:
        """The broker said that the partition begins here."""
        if start < before:
            self._broken(f"the start was {before} and is {start} ({how})")
        if start > self.start_asked:
            self._broken(f"the start is {start}, asked for {self.start_asked} ({how})")
        self.start = max(self.start, start)

    def out_of_range(self, offset: int, how: str) -> None:
        """The broker said that there is no such offset."""
        if self.start_asked <= offset <= self.end:
            self._broken(f"offset {offset} is said to be out of range ({how})")

    def check_order(self) -> None:
        """The records of each producer stand in the order of sending."""
        last: dict[str, tuple[int, int]] = {}
        for offset in sorted(self.at):
            producer, number = self.sent[self.at[offset]]
            before = last.get(producer, (-1, -1))
            if number < before[0]:
                self._broken(
                    f"{producer}: {number} at {offset} stands behind "
                    f"{before[0]} at {before[1]}"
                )
            last[producer] = number, offset

    def forgive(self) -> None:
        """The power went after the disk had failed: what was refused may be there."""
        self.refused = {
            value: why for value, why in self.refused.items() if "STORAGE" not in why
        }

    def _broken(self, what: str) -> None:
        raise Violation(f"{self.name}: {what}")


@dataclass
class TopicModel:
    """A topic and whether there is one: created and deleted are what was asked."""

    name: str
    partitions: list[PartitionModel]
    created: bool = False
    delete_asked: bool = False
    deleted: bool = False


class Model:
    """Everything that clients know together."""

    def __init__(self) -> None:
        self.topics: dict[str, TopicModel] = {}
        self.offsets: dict[tuple[str, str, int], CommittedModel] = {}
        self.transactions: list[TransactionModel] = []
        self.ids = TransactionalIds()
        self.acknowledged = 0
        self.read = 0

    def topic(self, name: str, partitions: int) -> TopicModel:
        parts = [PartitionModel(f"{name}-{i}") for i in range(partitions)]
        return self.topics.setdefault(name, TopicModel(name, parts))

    def committed(self, group: str, topic: str, partition: int) -> "CommittedModel":
        key = (group, topic, partition)
        return self.offsets.setdefault(key, CommittedModel("/".join(map(str, key))))

    def forgive_refusals(self) -> None:
        for topic in self.topics.values():
            for partition in topic.partitions:
                partition.forgive()

    def saw_topics(self, found: Mapping[str, int]) -> None:
        """Metadata of all topics: name -> partitions."""
        for topic in self.topics.values():
            if topic.created and not topic.delete_asked and topic.name not in found:
                raise Violation(f"{topic.name} is gone, nobody deleted it")
            if topic.deleted and topic.name in found:
                raise Violation(f"{topic.name} was deleted and is back")


@dataclass
class CommittedModel:
    """One committed offset: its committer commits growing numbers only."""

    name: str
    acknowledged: int = -1
    asked: int = -1
    transactions: dict[int, TransactionModel] = field(default_factory=dict)
    """Offset -> the transaction that it is part of."""

    def ask(self, offset: int) -> None:
        self.asked = max(self.asked, offset)

    def acknowledge(self, offset: int) -> None:
        self.acknowledged = max(self.acknowledged, offset)

    def saw(self, offset: int, before: int, how: str) -> None:
        """It was read; ``before``: what was acknowledged when it was asked for."""
        if not before <= offset <= self.asked:
            raise Violation(
                f"{self.name}: committed is {offset}, acknowledged was "
                f"{before}, asked {self.asked} ({how})"
            )
        self.acknowledged = max(self.acknowledged, offset)  # it was durable
        if offset in self.transactions:
            self.transactions[offset].committed(f"offset {offset} of {self.name}")
