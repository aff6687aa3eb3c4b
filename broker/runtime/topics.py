"""The topics of this broker: an image of the catalog that every request reads.

The problem: a request names topics by name or by id many thousand times a second, and
the truth about them is in a database. The idea: keep all of it in three dictionaries,
change the database first and the dictionaries when it has committed, so that no answer
rests on something a crash could take back. Whoever must act on a change (partitions,
tables, delayed fetches) watches. The price: memory for every topic, and one broker.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, Protocol, TypeVar

import broker.catalog.topics as stored
from broker.clock import Clock
from broker.protocol.errors import ErrorCode, KafkaError
from broker.topics import configs as topic_configs
from broker.topics import names
from broker.topics.topic import Topic

T = TypeVar("T")
PARTITIONS_MAX = 100_000


class Catalog(Protocol):
    """What is used of the catalog: changes that are on disk when they return."""

    def submit(self, change: Callable[[Any], T]) -> Future[T]: ...


class TopicWatcher(Protocol):
    """Whoever must know that a topic came, changed or went. Called on the loop."""

    def topic_created(self, topic: Topic) -> None: ...

    def topic_changed(self, topic: Topic) -> None: ...

    def topic_deleted(self, topic: Topic) -> None: ...


class Topics:
    """All topics by name, by id and by number.

    Mutators are coroutines that return when the catalog has committed, and raise
    ``KafkaError`` with the code for the client.
    """

    def __init__(
        self,
        catalog: Catalog,
        clock: Clock,
        *,
        new_id: Callable[[], bytes] = lambda: os.urandom(16),
    ) -> None:
        self._catalog = catalog
        self._clock = clock
        self._new_id = new_id
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}
        self._by_number: dict[int, Topic] = {}
        self._pending: dict[str, asyncio.Future[Topic]] = {}
        self._watchers: list[TopicWatcher] = []
        self._altering = asyncio.Lock()  # an edit starts from what the last one left

    def load(self, topics: Iterable[Topic]) -> None:
        """Take over what the catalog holds, at start, before anybody watches."""
        for topic in topics:
            self._put(topic)

    def watch(self, watcher: TopicWatcher) -> None:
        self._watchers.append(watcher)

    def get(self, name: str) -> Topic | None:
        return self._by_name.get(name)

    def by_id(self, topic_id: bytes) -> Topic | None:
        return self._by_id.get(topic_id)

    def by_number(self, number: int) -> Topic | None:
        return self._by_number.get(number)

    def all(self) -> Iterator[Topic]:
        """Every topic, in the order of names."""
        return iter([self._by_name[name] for name in sorted(self._by_name)])

    def __len__(self) -> int:
        return len(self._by_name)

    @staticmethod
    def is_valid_name(name: str) -> bool:
        """Whether a topic could be called so."""
        try:
            names.validate(name)
        except KafkaError:
            return False
        return True

    def check_new(
        self, name: str, partitions: int, configs: Mapping[str, str | None]
    ) -> dict[str, str]:
        """The configurations as they will be stored, if such a topic may be made.

        Raises INVALID_TOPIC_EXCEPTION (bad name, or one that collides with another
        in the names of metrics), TOPIC_ALREADY_EXISTS, INVALID_PARTITIONS or
        INVALID_CONFIG, as Kafka's ReplicationControlManager does.
        """
        names.validate(name)
        if name in self._by_name or name in self._pending:
            raise KafkaError(
                ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists."
            )
        self._check_collision(name)
        if not 0 < partitions <= PARTITIONS_MAX:
            raise KafkaError(
                ErrorCode.INVALID_PARTITIONS,
                "Number of partitions was set to an invalid non-positive value."
                if partitions <= 0
                else f"Number of partitions must not exceed {PARTITIONS_MAX}.",
            )
        return topic_configs.validate(configs)

    async def create(
        self, name: str, partitions: int, configs: Mapping[str, str | None]
    ) -> Topic:
        """Make a topic with a new id and number; errors as ``check_new``."""
        kept = self.check_new(name, partitions, configs)
        topic_id, now_ms = self._new_id(), self._clock.now_ms()
        pending = asyncio.get_running_loop().create_future()
        self._pending[name] = pending
        try:
            topic: Topic = await self._commit(
                lambda connection: stored.create(
                    connection, name, topic_id, partitions, kept, now_ms
                )
            )
            self._put(topic)
            for watcher in self._watchers:
                watcher.topic_created(topic)
        finally:
            del self._pending[name]
            pending.cancel()
        return topic

    async def ensure(
        self, name: str, partitions: int, configs: Mapping[str, str | None]
    ) -> Topic:
        """The topic, created if need be; many may ask at once and one is made."""
        while name in self._pending:
            await asyncio.wait([self._pending[name]])
        topic = self._by_name.get(name)
        return topic or await self.create(name, partitions, configs)

    async def delete(self, topic: Topic) -> None:
        """Forget a topic. It is gone for every client when this returns.

        Its partitions vanish before the catalog is asked, so that nothing more is
        appended; should the catalog fail, they come back.
        """
        self._require(topic)
        self._drop(topic)
        try:
            now_ms = self._clock.now_ms()
            await self._commit(
                lambda connection: stored.delete(connection, topic.number, now_ms)
            )
        except BaseException:
            self._put(topic)
            raise
        for watcher in self._watchers:
            watcher.topic_deleted(topic)

    async def add_partitions(self, topic: Topic, total: int) -> Topic:
        """Raise the number of partitions to ``total``; INVALID_PARTITIONS if it is
        not more than there are."""
        self.check_added(topic, total)
        await self._commit(
            lambda connection: stored.add_partitions(connection, topic.number, total)
        )
        return self._change(topic, lambda now: replace(now, partitions=total))

    def check_added(self, topic: Topic, total: int) -> None:
        """Raise INVALID_PARTITIONS unless ``total`` is more than the topic has."""
        self._require(topic)
        if total <= topic.partitions:
            same = total == topic.partitions
            raise KafkaError(
                ErrorCode.INVALID_PARTITIONS,
                f"Topic already has {topic.partitions} partition(s)."
                if same
                else f"The topic {topic.name} currently has {topic.partitions} "
                f"partition(s); {total} would not be an increase.",
            )
        if total > PARTITIONS_MAX:
            raise KafkaError(
                ErrorCode.INVALID_PARTITIONS,
                f"Number of partitions must not exceed {PARTITIONS_MAX}.",
            )

    async def alter_configs(
        self, topic: Topic, edit: Callable[[Mapping[str, str]], dict[str, str]]
    ) -> Topic:
        """Change the topic's own configurations by ``edit``, one change at a time.

        ``edit`` raises INVALID_CONFIG or INVALID_REQUEST for what cannot be.
        """
        async with self._altering:
            self._require(topic)
            kept = edit(self._by_number[topic.number].configs)
            await self._commit(
                lambda connection: stored.alter_configs(connection, topic.number, kept)
            )
            return self._change(topic, lambda now: replace(now, configs=kept))

    async def set_log_starts(self, starts: Mapping[tuple[int, int], int]) -> None:
        """Make new log starts of (number, partition) durable."""
        await self._commit(lambda connection: stored.set_log_start(connection, starts))

    def _commit(self, change: Callable[[Any], T]) -> Awaitable[T]:
        return asyncio.wrap_future(self._catalog.submit(change))

    def _change(self, topic: Topic, edit: Callable[[Topic], Topic]) -> Topic:
        now = self._by_number.get(topic.number)
        if now is None:  # deleted while the catalog committed
            return edit(topic)
        changed = edit(now)
        self._put(changed)
        for watcher in self._watchers:
            watcher.topic_changed(changed)
        return changed

    def _put(self, topic: Topic) -> None:
        self._by_name[topic.name] = topic
        self._by_id[topic.id] = topic
        self._by_number[topic.number] = topic

    def _drop(self, topic: Topic) -> None:
        del self._by_name[topic.name]
        del self._by_id[topic.id]
        del self._by_number[topic.number]

    def _require(self, topic: Topic) -> None:
        if topic.number not in self._by_number:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                "This server does not host this topic-partition.",
            )

    def _check_collision(self, name: str) -> None:
        other = names.colliding(name, (*self._by_name, *self._pending))
        if other is not None:
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"Topic '{name}' collides with existing topic: {other}",
            )
