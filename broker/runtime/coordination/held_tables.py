"""Which open transactions hold tables back, whose they are and since when.

The problem: a table ends before the first open transaction of each partition, so one
that does not end stops it in silence, and the broker of a thousand producers must say
which it is. The idea: the partitions that have an open one are known, in the order in
which they came to have it; once a second the first of them are looked at, and the
coordinator asked whose producer it is. What it does not know, or knows to be about
something else, hangs: nobody will end it but an operator.

The price: of more than ``LOOKED_AT`` partitions with open transactions only these are
told, and one that hangs is as old as this process knows it.
"""

from collections.abc import Iterator
from itertools import islice
from operator import attrgetter
from typing import Final, NamedTuple

from broker.clock import Clock
from broker.ids import TopicPartition
from broker.runtime.coordination.transactions import TransactionCoordinator
from broker.runtime.partitions.partition import Partition
from broker.runtime.partitions.partitions import Partitions
from broker.runtime.topics.topics import Topics
from broker.status.schema import OpenTransaction

LOOKED_AT: Final = 1_000
"""A millisecond or two, once a second."""
SHOWN_MAX: Final = 20


class Held(NamedTuple):
    """What holds tables back now; ``transactions``: the oldest ones first."""

    partitions: int = 0
    oldest_ms: int = 0
    transactions: tuple[OpenTransaction, ...] = ()
    warnings: tuple[str, ...] = ()


class HeldTables:
    """Looks at the open transactions. For the event loop's thread."""

    def __init__(
        self,
        partitions: Partitions,
        transactions: TransactionCoordinator,
        topics: Topics,
        clock: Clock,
    ) -> None:
        self._partitions = partitions
        self._transactions = transactions
        self._topics = topics
        self._clock = clock
        self._seen: dict[tuple[TopicPartition, int], int] = {}
        """When the transaction that begins at an offset of a partition was first seen,
        of those that hang."""

    def look(self) -> Held:
        """What holds tables back now; nothing while the broker stops."""
        now_ms, before = self._clock.now_ms(), self._seen
        self._seen = {}
        if self._transactions.is_closed:
            return Held()
        opened = self._partitions.open
        found = [
            self._described(partition, before, now_ms)
            for partition in islice(opened, LOOKED_AT)
            if partition.log.transactions.open  # else it has just ended
        ]
        found.sort(key=attrgetter("since_ms"))
        hanging = [one for one in found if one.hangs]
        return Held(
            len(opened),
            max(now_ms - found[0].since_ms, 0) if found else 0,
            tuple(found[:SHOWN_MAX]),
            tuple(_warnings(hanging, unseen=len(opened) - LOOKED_AT)),
        )

    def _described(
        self,
        partition: Partition,
        before: dict[tuple[TopicPartition, int], int],
        now_ms: int,
    ) -> OpenTransaction:
        """The first open transaction of a partition that has one."""
        producer_id, start = next(iter(partition.log.transactions.open.items()))
        name = self._transactions.id_of(producer_id)
        started_ms = self._started_ms(name, partition.key)
        if started_ms is None:
            key = (partition.key, start)
            since_ms = self._seen[key] = before.get(key, now_ms)
        else:
            since_ms = started_ms
        topic = self._topics.by_number(partition.number)
        return OpenTransaction(
            "" if topic is None else topic.name,
            partition.index,
            start,
            producer_id,
            name,
            started_ms is None,
            since_ms,
            partition.high_watermark - start,
        )

    def _started_ms(self, name: str | None, key: TopicPartition) -> int | None:
        """When the transaction began that a coordinator will end; None: it hangs."""
        found = None if name is None else self._transactions.describe(name)
        if found is None or found.is_idle or key not in found.partitions:
            return None
        return found.started_ms


def _warnings(hanging: list[OpenTransaction], unseen: int) -> Iterator[str]:
    """The oldest ones that hang, and how many are not among them."""
    yield from map(_warning, hanging[:SHOWN_MAX])
    if len(hanging) > SHOWN_MAX:
        beyond = f", and {unseen} partitions were not looked at" if unseen > 0 else ""
        yield f"{len(hanging) - SHOWN_MAX} more transactions hang{beyond}"


def _warning(one: OpenTransaction) -> str:
    return (
        f"a transaction of producer {one.producer_id} hangs in {one.topic}-"
        f"{one.partition}; nothing from offset {one.start_offset} on reaches the "
        f"table before: lakelog transactions abort --topic {one.topic} "
        f"--partition {one.partition} --start-offset {one.start_offset}"
    )
