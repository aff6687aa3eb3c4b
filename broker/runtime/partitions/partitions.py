"""All partitions of the broker: found, made, deleted, and awaited.

Waiting fetches are looked at once for each group of writes, not once for each batch:
a partition whose durable end moved is remembered, and one call at the end of the loop's
turn asks who is satisfied. The price: one turn of the loop, some microseconds, before a
fetch wakes.

A partition is made when somebody asks for it: a topic of ten thousand costs nothing to
create, and what nobody writes to takes no memory.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Any, Final, NamedTuple

from broker.fetching.session import FetchSession, wake
from broker.ids import PartitionNumber, TopicNumber, TopicPartition
from broker.log.partition import PartitionLog
from broker.protocol.errors import ErrorCode, KafkaError, unknown_partition
from broker.runtime.partitions.checkpoint import Checkpoint
from broker.runtime.partitions.inspector import Inspector, Rules
from broker.runtime.partitions.overdue import Overdue
from broker.runtime.partitions.partition import Partition
from broker.runtime.partitions.reads import Reader
from broker.runtime.partitions.released_ends import ReleasedEnds
from broker.runtime.partitions.timestamps import Times
from broker.runtime.partitions.waiting_topics import LogOf, WaitingTopic, WaitingTopics
from broker.runtime.ports import Tables
from broker.runtime.process.status import Counters
from broker.runtime.topics.topics import Topics, to_the_end
from broker.storage.ranges import Ranges
from broker.storage.wal import Carried, Wal
from broker.timing.delayed import DelayedOperations
from broker.topics.configs import PRODUCER, TopicConfig
from broker.topics.topic import SHOWN_NUMBER, Topic

PRODUCERS_A_TURN = 20_000
PARTITION_AS_PRODUCERS = 10
"""What a partition without producers costs, when the silent ones are looked for."""
PARTITIONS_A_TURN: Final = 50
"""So many get new locations in one turn of the loop."""
RELEASES_A_TURN: Final = 1_000
"""So many forget a segment in one turn: a microsecond each, and more if they forget
much."""
HELD_IN: Final = 30
"""In so many segments it is looked for what a partition still has."""
LOOK_AS_RELEASES: Final = 10
"""What that costs, counted in releases that forget nothing."""
CONFIGURED_A_TURN: Final = 500
RAISED_A_TURN: Final = 500
"""So many get a new log start in one turn: some eight microseconds each."""
MOVED_A_TURN: Final = 2_000
"""So many are looked at for waiting fetches in one turn."""
TRIMMED_A_TURN: Final = 1_000
"""So many leave to a changed table what it has, in one turn: two microseconds each."""

ConfigOf = Callable[[Topic], TopicConfig]


class Traffic(NamedTuple):
    """What a topic got and gave, as its partitions counted it."""

    number: TopicNumber
    records_in: int
    bytes_in: int
    bytes_out: int


class Partitions:
    """Every partition by (topic number, partition); watches ``Topics``.

    ``config_of`` makes the effective configuration of a topic, ``call_soon`` is the
    loop's; ``overdue`` keeps what is on its way to the disk, ``released_ends`` what is
    no longer in the log.
    """

    def __init__(
        self,
        topics: Topics,
        wal: Wal,
        lake: Tables,
        purgatory: DelayedOperations,
        inspector: Inspector,
        counters: Counters,
        *,
        config_of: ConfigOf,
        call_soon: Callable[[Callable[[], None]], Any],
        overdue: Overdue,
        released_ends: ReleasedEnds,
    ) -> None:
        self._topics = topics
        self._wal = wal
        self._lake = lake
        self._counters = counters
        self._purgatory = purgatory
        self._inspector = inspector
        self._config_of = config_of
        self._call_soon = call_soon
        self._by_topic: dict[TopicNumber, list[Partition | None]] = {}
        self._configs: dict[TopicNumber, TopicConfig] = {}
        self.recompressed: set[TopicNumber] = set()
        """Topics that keep their batches in a codec of their own."""
        self._damaged: set[TopicNumber] = set()
        self._waiting = WaitingTopics(
            lake,
            self._make_known,
            count_of=lambda number: len(self._by_topic[number]),
            call_soon=call_soon,
        )
        self._moved: dict[Partition, None] = {}  # a set, in the order of its making
        self._woken: dict[FetchSession, None] = {}
        self.open: dict[Partition, None] = {}
        """Those with an open transaction, that which has one the longest first."""
        self._raising = asyncio.Lock()
        self._checkpoint: Checkpoint | None = None
        self._checkpoint_again = False
        self.overdue = overdue
        self.released_ends = released_ends
        self.reader = Reader(wal, lake)
        self.times = Times(wal, lake)
        topics.watch(self)

    def get(self, number: TopicNumber, index: int) -> Partition | None:
        if not self._has(number, index):
            return None
        waiting = self._waiting
        if number in waiting.topics and waiting.holds(number, index):
            return None
        return self._by_topic[number][index] or self._make(number, index)

    def is_awaited(self, number: TopicNumber, index: int) -> bool:
        """Whether there is such a partition, and `get` does not have it yet."""
        return self._has(number, index) and self.get(number, index) is None

    def _make_known(
        self, number: TopicNumber, indexes: Sequence[int], log_of: LogOf
    ) -> None:
        """Make these partitions of a topic that has waited for its table."""
        partitions = self._by_topic[number]
        for index in map(PartitionNumber, indexes):
            if partitions[index] is None:
                made = self._make(number, index, log_of((number, index)))
                # Its owner may have changed what is there, and that is told only once.
                made.log.index.trim_below(self._lake.table_end(number, index))
                self.note_open(made)
        found = (partitions[index] for index in indexes)
        self.released_ends.note_found(filter(None, found))

    def _has(self, number: TopicNumber, index: int) -> bool:
        partitions = self._by_topic.get(number)
        return partitions is not None and 0 <= index < len(partitions)

    def needed_from(self, number: TopicNumber, index: PartitionNumber) -> int:
        """Below it no record is needed, durably: a topic's table that is to keep what
        the log does not gets it first; 0 if there is no such partition."""
        partition = self.get(number, index)
        if partition is None or partition.config.waits_for_table:
            return 0
        return partition.log_start

    def named(self, name: str, index: int) -> Partition:
        """By topic name. Raises UNKNOWN_TOPIC_OR_PARTITION; KAFKA_STORAGE_ERROR while
        nobody knows where it ends."""
        return self._found(self._topics.named(name).number, index)

    def identified(self, topic_id: bytes, index: int) -> Partition:
        """By topic id. Raises UNKNOWN_TOPIC_ID and as `named`."""
        return self._found(self._topics.identified(topic_id).number, index)

    def _found(self, number: TopicNumber, index: int) -> Partition:
        found = self.get(number, index)
        if found is not None:
            return found
        if self._has(number, index):
            why = self._lake.why_missing(number, PartitionNumber(index))
            if self._waiting.is_taken_up(number):
                why = "its table can be read now, and it will be there in a moment"
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, why)
        raise unknown_partition()

    def __iter__(self) -> Iterator[Partition]:
        """Those of stored topics that anybody asked for; the others hold nothing."""
        for number, partitions in list(self._by_topic.items()):
            if number != SHOWN_NUMBER:
                yield from filter(None, partitions)

    @property
    def count(self) -> int:
        """How many partitions all stored topics have."""
        return sum(
            len(partitions)
            for number, partitions in self._by_topic.items()
            if number != SHOWN_NUMBER
        )

    def traffic(self) -> Iterator[Traffic]:
        """What each stored topic got and gave since the start, if it did; for the
        loop's own thread, in as many turns as it likes."""
        for number, partitions in list(self._by_topic.items()):
            made = [one for one in partitions if one is not None]
            bytes_in = sum(one.bytes_committed for one in made)
            bytes_out = sum(one.bytes_fetched for one in made)
            if (bytes_in or bytes_out) and number != SHOWN_NUMBER:
                records_in = sum(one.records_committed for one in made)
                yield Traffic(number, records_in, bytes_in, bytes_out)

    def bounds(self, number: TopicNumber) -> tuple[int, int, int]:
        """What a topic asks of its records now; see `Inspector.bounds`."""
        return self._inspector.bounds(number)

    def restore(
        self,
        topic: Topic,
        logs: Mapping[int, PartitionLog],
        *,
        is_damaged: bool = False,
        unknown: LogOf | None = None,
        is_unsaid: bool = False,
    ) -> None:
        """Take up a topic at start, with the logs that were found for it.

        ``is_damaged``: what was written to the others may be lost, all of it.
        ``unknown``: what makes its other logs once its table can be read, which alone
        knows where they end. ``is_unsaid``: the checkpoint did, and is lost, and
        a part of the topic is known all the same.
        """
        self._by_topic[topic.number] = []
        if is_damaged:
            self._damaged.add(topic.number)
        self._grow(topic)
        if unknown is not None and len(logs) < topic.partitions:
            waiting = WaitingTopic(unknown, frozenset(logs))
            self._waiting.add(topic.number, waiting, is_unsaid=is_unsaid)
        for index, log in logs.items():
            self._make(topic.number, index, log)

    def topic_created(self, topic: Topic) -> None:
        self._by_topic[topic.number] = []
        self._grow(topic)

    def topic_changed(self, topic: Topic) -> None:
        self._grow(topic)
        config = self._configs[topic.number]
        for partition in filter(None, self._by_topic[topic.number]):
            partition.configure(config)

    async def configure(self) -> None:
        """Let what the broker says for all topics hold for each; others have turns."""
        looked_at = 0
        for number in tuple(self._by_topic):
            topic = self._topics.by_number(number)
            if topic is None or number not in self._by_topic:
                continue  # deleted meanwhile
            self.topic_changed(topic)
            looked_at += 1 + topic.partitions
            if looked_at >= CONFIGURED_A_TURN:
                looked_at = 0
                await asyncio.sleep(0)

    def topic_deleted(self, topic: Topic) -> None:
        self._inspector.rules.pop(topic.number, None)
        self._damaged.discard(topic.number)
        self._waiting.forget(topic.number)
        self._configs.pop(topic.number, None)
        self.recompressed.discard(topic.number)
        self.released_ends.forget(topic.number)
        for partition in filter(None, self._by_topic.pop(topic.number, [])):
            partition.deleted = True
            self._note_moved(partition)

    def _grow(self, topic: Topic) -> None:
        """Know how many partitions a topic has, and what holds for them."""
        config = self._configs[topic.number] = self._config_of(topic)
        self._inspector.rules[topic.number] = Rules(
            config.compacted,
            config.message_timestamp_before_max_ms,
            config.message_timestamp_after_max_ms,
        )
        if config.compression_type == PRODUCER:
            self.recompressed.discard(topic.number)
        else:
            self.recompressed.add(topic.number)
        partitions = self._by_topic[topic.number]
        partitions.extend([None] * (topic.partitions - len(partitions)))

    def _make(
        self, number: TopicNumber, index: int, log: PartitionLog | None = None
    ) -> Partition:
        """A partition of a known topic, from now on."""
        made = Partition(
            number,
            PartitionNumber(index),
            log or PartitionLog(has_forgotten=number in self._damaged),
            self._configs[number],
            self._wal,
            self._counters,
            self._note_moved,
            self.overdue.queue,
        )
        self._by_topic[number][index] = made
        return made

    async def raise_log_starts(self, moves: Mapping[Partition, int]) -> None:
        """Raise the log starts: durably, then in memory; records below are deleted."""
        await to_the_end(self._raise(moves))

    async def _raise(self, moves: Mapping[Partition, int]) -> None:
        async with self._raising:  # a lower start must not overwrite a higher one
            raised, starts = dict[Partition, int](), dict[TopicPartition, int]()
            for count, (partition, start) in enumerate(moves.items(), 1):
                if start > partition.log_start and not partition.deleted:
                    raised[partition] = starts[partition.key] = start
                if count % RAISED_A_TURN == 0:
                    await asyncio.sleep(0)
            if not raised:
                return
            await self._topics.set_log_starts(starts)
            for count, (partition, start) in enumerate(raised.items(), 1):
                partition.log.move_start(start)
                self._note_moved(partition)
                if count % RAISED_A_TURN == 0:
                    await asyncio.sleep(0)

    async def segment_released(self, sequence: int) -> None:
        """A segment is about to be released: what it held is read from the tables.

        Only the partitions that are in it are told: others may have batches in older
        segments that no table has yet.
        """
        others, work = None, 0
        for key in self._wal.ranges(sequence):
            partition = self.get(*key)
            if partition is None:
                continue
            held = None
            if partition.log.outlasts_release:
                others = self._others({sequence}) if others is None else others
                held, work = _held(partition, others), work + LOOK_AS_RELEASES
            partition.log.release(sequence, held)
            work += 1
            if work >= RELEASES_A_TURN:
                work = 0
                await asyncio.sleep(0)

    def part_of(
        self, key: TopicPartition, sequence: int, offset: int
    ) -> tuple[int, int] | None:
        """Bytes and batches of a partition in a segment, from ``offset`` on; None: that
        lies below what is read in segments."""
        partition = self.get(*key)
        if partition is None:
            return 0, 0
        return partition.log.index.part_of(sequence, offset)

    async def segments_carried(self, carried: Carried) -> None:
        """What is needed of some segments lies in another one now: it is read there."""
        keys: dict[TopicPartition, None] = {}
        for sequence in carried.sequences:
            keys |= dict.fromkeys(self._wal.ranges(sequence))
            await asyncio.sleep(0)
        others = self._others(set(carried.sequences))
        for count, key in enumerate(keys, 1):
            partition = self.get(*key)
            if partition is not None:
                old, new = carried.moves.get(key, ((), ()))
                held = _held(partition, others)
                partition.log.move(old, new, carried.sequences, held)
            if count % PARTITIONS_A_TURN == 0:
                await asyncio.sleep(0)

    def _others(self, sequences: Set[int]) -> list[Ranges]:
        """What all segments hold but these, in their order."""
        infos = self._wal.segments()
        return [one.ranges for one in infos if one.sequence not in sequences]

    def read_from_table(self, number: TopicNumber) -> None:
        """The table of a topic has changed: what is in it is read there from now on,
        although segments still have it as it was produced."""
        for _ in self.reading_from_table(number):
            pass

    def reading_from_table(self, number: TopicNumber) -> Iterator[None]:
        """The same, with a pause after each turn of the loop's worth."""
        partitions = filter(None, self._by_topic.get(number, ()))
        for count, partition in enumerate(partitions, 1):
            table_end = self._lake.table_end(number, partition.index)
            partition.log.index.trim_below(table_end)
            if count % TRIMMED_A_TURN == 0:
                yield
        yield

    def checkpoint(self) -> None:
        """Write down what segments and tables cannot tell, at once; nothing where the
        last one is lost, until all is known that it said: the next start would take
        what is not in it for empty."""
        if self._waiting.is_all_said_at_last():
            Checkpoint(self, self._wal).finish()

    def is_all_known(self) -> bool:
        """Whether all is known that a lost checkpoint said, or what was lost behind
        one; see `WaitingTopics.is_all_said`."""
        return self._waiting.is_all_said()

    def begin_checkpoint(self) -> None:
        """Write the same down in as many turns of the loop as it takes.

        While one is being put together, another one that is wanted begins behind it.
        As `checkpoint`, it may be none.
        """
        if not self.is_all_known():
            return
        if self._checkpoint is not None:
            self._checkpoint_again = True
            return
        self._checkpoint, self._checkpoint_again = Checkpoint(self, self._wal), False
        self._go_on_with_checkpoint()

    def _go_on_with_checkpoint(self) -> None:
        assert self._checkpoint is not None
        if not self._checkpoint.step():
            self._call_soon(self._go_on_with_checkpoint)
            return
        self._checkpoint = None
        if self._checkpoint_again:
            self.begin_checkpoint()

    async def expire_producers(self, now_ms: int, ttl_ms: int) -> None:
        """Forget idempotent producers that have been silent for ``ttl_ms``; others
        have their turn now and then."""
        looked_at = 0
        for partition in list(self):
            producers = partition.log.producers
            looked_at += PARTITION_AS_PRODUCERS + len(producers)
            partition.log.expire_producers(now_ms, ttl_ms)
            if looked_at >= PRODUCERS_A_TURN:
                looked_at = 0
                await asyncio.sleep(0)

    def log_bytes(self, number: TopicNumber, index: PartitionNumber) -> int:
        """Bytes that a partition takes in segments."""
        if not self._has(number, index):
            return 0
        made = self._by_topic[number][index]
        return 0 if made is None else made.log.index.bytes

    def table_bytes(self, number: TopicNumber, index: PartitionNumber) -> int:
        """Bytes that it takes in its table's files."""
        if not self._has(number, index):
            return 0
        return self._lake.table_bytes(number, index)

    def _note_moved(self, partition: Partition) -> None:
        """Check at the end of this turn who waits for the partition; what of sessions
        rested on it is due at once."""
        if not self._moved:
            self._call_soon(self._check_moved)
        self._moved[partition] = None
        if partition.watchers:
            self._woken.update(dict.fromkeys(wake(partition).values()))

    def _check_moved(self) -> None:
        moved, woken = self._moved, self._woken
        if woken:
            self._woken = {}
            for session in woken:
                self._purgatory.check(session)
        for _ in range(min(len(moved), MOVED_A_TURN)):
            partition, _ = moved.popitem()
            self._purgatory.check(partition.key)
            self.note_open(partition)
        if moved:
            self._call_soon(self._check_moved)

    def note_open(self, partition: Partition) -> None:
        """Take note whether a transaction is open in a partition."""
        if partition.log.transactions.open and not partition.deleted:
            self.open.setdefault(partition)
        elif self.open:
            self.open.pop(partition, None)


def _held(partition: Partition, others: Sequence[Ranges]) -> int | None:
    """The first offset of a partition that these segments have; None: they have none.
    Not looked for where nobody wants to know."""
    if partition.log.outlasts_release:
        for ranges in others[:HELD_IN]:
            found = ranges.get(partition.key)
            if found is not None:
                return found[0]
        return 0 if len(others) > HELD_IN else None  # another release will tell
    return None
