"""All partitions of the broker: found, made, deleted, and awaited.

Waiting fetches are looked at once for each group of writes, not once for each batch:
a settled partition is remembered, and one call at the end of the loop's turn asks who
is satisfied. The price: one turn of the loop, some microseconds, before a fetch wakes.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from broker.log import checkpoint
from broker.log.partition import PartitionLog
from broker.protocol.errors import ErrorCode, KafkaError
from broker.runtime.inspector import Inspector, Rules
from broker.runtime.partition import Partition
from broker.runtime.ports import InCounters, Lake
from broker.runtime.reads import Reader
from broker.runtime.timestamps import Times
from broker.runtime.topics import Topics
from broker.storage.wal import Wal
from broker.timing.delayed import DelayedOperations
from broker.topics.configs import TopicConfig
from broker.topics.topic import Topic

TopicPartition = tuple[int, int]
ConfigOf = Callable[[Topic], TopicConfig]


class Partitions:
    """Every partition by (topic number, partition); watches ``Topics``.

    ``config_of`` makes the effective configuration of a topic, ``call_soon`` is the
    loop's.
    """

    def __init__(
        self,
        topics: Topics,
        wal: Wal,
        lake: Lake,
        waits: DelayedOperations,
        inspector: Inspector,
        counters: InCounters,
        *,
        config_of: ConfigOf,
        call_soon: Callable[[Callable[[], None]], Any],
    ) -> None:
        self._topics = topics
        self._wal = wal
        self._lake = lake
        self._counters = counters
        self._waits = waits
        self._inspector = inspector
        self._config_of = config_of
        self._call_soon = call_soon
        self._by_topic: dict[int, list[Partition]] = {}
        self._moved: set[TopicPartition] = set()
        self._raising = asyncio.Lock()
        self.reader = Reader(wal, lake)
        self.times = Times(wal, lake)
        topics.watch(self)

    def get(self, number: int, index: int) -> Partition | None:
        partitions = self._by_topic.get(number)
        if partitions is None or not 0 <= index < len(partitions):
            return None
        return partitions[index]

    def named(self, name: str, index: int) -> Partition:
        """By topic name. Raises UNKNOWN_TOPIC_OR_PARTITION."""
        topic = self._topics.get(name)
        found = None if topic is None else self.get(topic.number, index)
        if found is None:
            raise unknown_partition()
        return found

    def identified(self, topic_id: bytes, index: int) -> Partition:
        """By topic id. Raises UNKNOWN_TOPIC_ID or UNKNOWN_TOPIC_OR_PARTITION."""
        topic = self._topics.by_id(topic_id)
        if topic is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID."
            )
        found = self.get(topic.number, index)
        if found is None:
            raise unknown_partition()
        return found

    def __iter__(self) -> Iterator[Partition]:
        for partitions in list(self._by_topic.values()):
            yield from partitions

    def restore(self, topic: Topic, logs: Mapping[int, PartitionLog]) -> None:
        """Take up a topic at start, with the logs that were found for it."""
        self._by_topic[topic.number] = []
        self._grow(topic, logs)

    def topic_created(self, topic: Topic) -> None:
        self._by_topic[topic.number] = []
        self._grow(topic, {})

    def topic_changed(self, topic: Topic) -> None:
        self._grow(topic, {})
        config = self._config_of(topic)
        for partition in self._by_topic[topic.number]:
            partition.config = config

    def topic_deleted(self, topic: Topic) -> None:
        self._inspector.rules.pop(topic.number, None)
        for partition in self._by_topic.pop(topic.number, []):
            partition.deleted = True
            self._wake(partition)

    def _grow(self, topic: Topic, logs: Mapping[int, PartitionLog]) -> None:
        config = self._config_of(topic)
        self._inspector.rules[topic.number] = Rules(
            config.compacted,
            config.message_timestamp_before_max_ms,
            config.message_timestamp_after_max_ms,
        )
        partitions = self._by_topic[topic.number]
        for index in range(len(partitions), topic.partitions):
            log = logs.get(index) or PartitionLog()
            partitions.append(
                Partition(
                    topic.number,
                    index,
                    log,
                    config,
                    self._wal,
                    self._counters,
                    self._wake,
                )
            )

    async def raise_log_starts(self, moves: Mapping[Partition, int]) -> None:
        """Let go of everything below the given offsets: durably, then in sight."""
        async with self._raising:  # a lower start must not overwrite a higher one
            raised = {
                partition: start
                for partition, start in moves.items()
                if start > partition.log_start and not partition.deleted
            }
            if not raised:
                return
            await self._topics.set_log_starts(
                {partition.key: start for partition, start in raised.items()}
            )
            for partition, start in raised.items():
                partition.log.move_start(start)
                self._wake(partition)

    def segment_released(self, sequence: int) -> None:
        """A segment is about to be let go: what it held is read from the tables.

        Only the partitions that are in it are told: others may have batches in older
        segments that no table has yet.
        """
        for info in self._wal.segments():
            if info.sequence == sequence:
                for key in info.ranges:
                    partition = self.get(*key)
                    if partition is not None:
                        partition.log.index.release(sequence)

    def checkpoint(self) -> None:
        """Write down what segments and tables cannot tell, behind all appends."""
        self._wal.checkpoint(
            checkpoint.pack(
                (partition.key, partition.log)
                for partition in self
                if partition.log.offsets.next > 0
            )
        )

    def expire_producers(self, now_ms: int, ttl_ms: int) -> None:
        """Forget idempotent producers that have been silent for ``ttl_ms``."""
        for partition in self:
            partition.log.producers.expire(now_ms, ttl_ms)

    def bytes_of(self, number: int, index: int) -> int:
        """Bytes that a partition takes: in segments, and in its table's files."""
        partition = self.get(number, index)
        if partition is None:
            return 0
        return partition.log.index.bytes + self._lake.table_bytes(number, index)

    def _wake(self, partition: Partition) -> None:
        if not self._moved:
            self._call_soon(self._check_moved)
        self._moved.add(partition.key)

    def _check_moved(self) -> None:
        moved, self._moved = self._moved, set()
        for key in moved:
            self._waits.check(key)


def unknown_partition() -> KafkaError:
    return KafkaError(
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "This server does not host this topic-partition.",
    )
