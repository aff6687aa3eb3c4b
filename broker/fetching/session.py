"""A fetch session: the partitions that a client follows, and what it knows of them.

The problem (KIP-227): a client that follows ten thousand partitions names all of them
in each fetch, and is told of all of them, though one of them has something new. The
idea: both sides remember. A request says what is different from the last one, an answer
has what changed. So that the broker need not look at all of them either, a partition is
either *due*, and looked at by the next fetch, or it *rests*: the client is at its end
and knows its end and its start. What rests is registered with its log, once, and due
again as soon as that moves.

The price: 600 to 1,500 bytes for each partition (``PARTITION_BYTES``), and a fetch that
waits is told which partitions have become due (``take_woken``).

Rules: ``FetchSession.CachedPartition.maybeUpdateResponseData`` says what is answered;
what was answered with records is the last in the next answer, so that none starves.
"""

from collections.abc import Iterator
from itertools import islice
from operator import attrgetter
from typing import Final, Protocol

from broker.protocol.messages.fetch import FetchPartition

PARTITION_BYTES: Final = 1536
"""About what a partition of a session takes, its topic's name left out."""

EPOCH_MAX: Final = (1 << 31) - 1
TURN_PARTITIONS: Final = 500
"""So many are forgotten in one turn."""

UNKNOWN: Final = -1
"""A high watermark or log start that no partition has."""

Key = tuple[str | bytes, int]
"""Topic name, or id, and partition."""


class SessionPartition:
    """A partition of a session: what the client asked for, and what it was answered.

    ``topic``: its name; empty as long as a topic is known by ``topic_id`` alone.
    ``turn``: its place in the order of the session. ``log``: what it rests on.
    """

    __slots__ = (
        "asked", "high_watermark", "log", "log_start", "topic", "topic_id", "turn",
    )  # fmt: skip

    def __init__(
        self, topic: str, topic_id: bytes, asked: FetchPartition, turn: int
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.asked = asked
        self.turn = turn
        self.high_watermark = self.log_start = UNKNOWN
        self.log: Log | None = None


class Log(Protocol):
    """What partitions rest on, until ``wake`` is called of it."""

    watchers: "dict[SessionPartition, FetchSession]"


def wake(log: Log) -> "dict[SessionPartition, FetchSession]":
    """The log has moved: what rests on it is due. Returns it, with the sessions."""
    watchers, log.watchers = log.watchers, {}
    for partition, session in watchers.items():
        session.awake(partition)
    return watchers


BY_TURN = attrgetter("turn")


class FetchSession:
    """The partitions of one session; ``by_id``: of a client that names topics by id.

    ``epoch``: what the next request must say. ``weight_bytes``: what it takes.
    """

    __slots__ = (
        "_due", "_partitions", "_turn", "_woken", "by_id", "created_ms", "epoch", "id",
        "is_closed", "weight_bytes",
    )  # fmt: skip

    def __init__(self, *, by_id: bool) -> None:
        self.id = 0
        self.by_id = by_id
        self.epoch = 1
        self.created_ms = 0
        self.is_closed = False
        self.weight_bytes = 0
        self._turn = 0
        self._partitions: dict[Key, SessionPartition] = {}
        self._due: dict[SessionPartition, None] = {}
        self._woken: dict[SessionPartition, None] = {}

    def __len__(self) -> int:
        return len(self._partitions)

    def step(self) -> None:
        """A request came: the next one has the next epoch; behind the last comes 1."""
        self.epoch = 1 if self.epoch == EPOCH_MAX else self.epoch + 1

    def update(
        self, topic: str, topic_id: bytes, asked: FetchPartition
    ) -> SessionPartition:
        """Add a partition, or change what the client asks of it; it is due."""
        key: Key = (topic_id if self.by_id else topic, asked.partition)
        found = self._partitions.get(key)
        if found is None:
            self._turn += 1
            found = SessionPartition(topic, topic_id, asked, self._turn)
            self._partitions[key] = found
            self.weight_bytes += self._weight_of(found)
        else:
            found.asked = asked
            self._wake_up(found)
        self._due[found] = None
        return found

    def forget(self, topic: str, topic_id: bytes, partition: int) -> None:
        """Leave a partition out from now on; one that is not in it is no error."""
        key: Key = (topic_id if self.by_id else topic, partition)
        found = self._partitions.pop(key, None)
        if found is None:
            return
        self._wake_up(found)
        self._due.pop(found, None)
        self._woken.pop(found, None)
        self.weight_bytes -= self._weight_of(found)

    def close(self) -> Iterator[None]:
        """Forget all partitions; yields after each ``TURN_PARTITIONS``."""
        self.is_closed = True
        partitions, self._partitions = self._partitions, {}
        for count, partition in enumerate(partitions.values(), 1):
            self._wake_up(partition)
            if count % TURN_PARTITIONS == 0:
                yield
        self._due, self._woken = {}, {}

    @property
    def due_count(self) -> int:
        """How many are due."""
        return len(self._due)

    def due(self) -> list[SessionPartition]:
        """What the next answer may be about, in the order of the session."""
        self._woken.clear()
        return sorted(self._due, key=BY_TURN)

    @property
    def woken_count(self) -> int:
        """How many have become due since ``due`` or ``take_woken`` was asked."""
        return len(self._woken)

    def take_woken(self, count_max: int) -> list[SessionPartition]:
        """So many at most of what has become due since it was last asked for."""
        woken = list(islice(self._woken, count_max))
        for partition in woken:
            del self._woken[partition]
        return woken

    def awake(self, partition: SessionPartition) -> None:
        """What it rests on has moved: it is due."""
        partition.log = None
        self._due[partition] = self._woken[partition] = None

    def answer(
        self,
        partition: SessionPartition,
        *,
        high_watermark: int,
        log_start: int,
        has_records: bool = False,
        has_error: bool = False,
    ) -> bool:
        """Whether an answer is about this partition; what the client knows then.

        One with an error is in each answer, and in the next one without, too.
        """
        changed = (
            high_watermark != partition.high_watermark
            or log_start != partition.log_start
        )
        partition.high_watermark = UNKNOWN if has_error else high_watermark
        partition.log_start = log_start
        if has_records:
            self._turn += 1
            partition.turn = self._turn
        return has_records or has_error or changed

    def rest(self, partition: SessionPartition, log: Log) -> None:
        """There is nothing to be answered until ``log`` moves."""
        if self.is_closed or partition not in self._due:
            return
        del self._due[partition]
        self._woken.pop(partition, None)
        partition.log = log
        log.watchers[partition] = self

    def _wake_up(self, partition: SessionPartition) -> None:
        log, partition.log = partition.log, None
        if log is not None:
            del log.watchers[partition]

    def _weight_of(self, partition: SessionPartition) -> int:
        """About what it takes: its topic may have been named for it alone."""
        return PARTITION_BYTES + (0 if self.by_id else len(partition.topic))
