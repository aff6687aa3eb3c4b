"""The topics of this broker: an image of the catalog that every request reads.

The problem: a request names topics by name or by id many thousand times a second, and
the truth about them is in a database. The idea: keep all of it in three dictionaries,
change the database first and the dictionaries when it has committed, so that no answer
rests on something a crash could take back. Whoever must act on a change (partitions,
tables, delayed fetches) watches. The price: memory for every topic, and one broker.
"""

import asyncio
import os
from bisect import bisect_left, insort
from collections.abc import (
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
)
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, TypeVar

import broker.catalog.topics as stored
from broker.catalog.catalog import Catalog
from broker.clock import Clock
from broker.ids import TopicNumber, TopicPartition
from broker.protocol.errors import (
    ErrorCode,
    KafkaError,
    unknown_partition,
    unknown_topic_id,
)
from broker.runtime.handover import Handover
from broker.topics import configs as topic_configs
from broker.topics import names, warehouses
from broker.topics.topic import CONSUMER_OFFSETS, INTERNAL, Topic

T = TypeVar("T")
PARTITIONS_MAX = 50_000
"""Of all topics together, where the settings say nothing else."""
CREATED_AT_ONCE_MAX = 10_000
"""Partitions that one request may make: Kafka's MAX_PARTITIONS_PER_BATCH."""


Derived = dict[TopicNumber, tuple[Topic, bytes]]
"""Topic number -> the topic as it was, and the bytes that were made of it."""


class TopicWatcher(Protocol):
    """Whoever must know that a topic came, changed or went. Called on the loop."""

    def topic_created(self, topic: Topic) -> None: ...

    def topic_changed(self, topic: Topic) -> None: ...

    def topic_deleted(self, topic: Topic) -> None: ...


class Topics:
    """All topics by name, by id and by number.

    ``defaults``: what the broker says for topics that do not say it, by topic key;
    ``further``: the names of its further warehouses.

    Mutators are coroutines that return when the catalog has committed, and raise
    ``KafkaError`` with the code for the client. One that is cancelled goes on without
    its caller: what the catalog commits is always seen.
    """

    def __init__(
        self,
        catalog: Catalog,
        clock: Clock,
        *,
        partitions_max: int = PARTITIONS_MAX,
        new_id: Callable[[], bytes] = lambda: os.urandom(16),
        defaults: Callable[[], Mapping[str, str]] = dict,
        further: Collection[str] = (),
    ) -> None:
        self._defaults, self._further = defaults, further
        self._catalog = catalog
        self._clock = clock
        self._partitions_max = partitions_max
        self._partitions = 0  # of the topics that are here
        self._promised = 0  # and of those that the catalog is asked to commit
        self._new_id = new_id
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}
        self._by_number: dict[TopicNumber, Topic] = {}
        self._pending: dict[str, asyncio.Future[Topic]] = {}
        self._committed = Handover()
        self._taken = names.Taken()  # the names of both
        self._watchers: list[TopicWatcher] = []
        self._order: list[str] | None = None  # of names; None: nobody asked yet
        self._derived: dict[Hashable, Derived] = {}
        # An edit of a topic starts from what the last one left.
        self._altering: dict[TopicNumber, asyncio.Lock] = {}

    def load(self, topics: Iterable[Topic]) -> None:
        """Take over what the catalog holds, at start, before anybody watches.

        With it comes the topic that is only shown, unless an older version has let
        clients make one of its name.
        """
        for topic in (CONSUMER_OFFSETS, *topics):
            self._put(topic)

    def watch(self, watcher: TopicWatcher) -> None:
        self._watchers.append(watcher)

    def get(self, name: str) -> Topic | None:
        return self._by_name.get(name)

    def by_id(self, topic_id: bytes) -> Topic | None:
        return self._by_id.get(topic_id)

    def named(self, name: str) -> Topic:
        """Return the topic. Raises UNKNOWN_TOPIC_OR_PARTITION."""
        topic = self._by_name.get(name)
        if topic is None:
            raise unknown_partition()
        return topic

    def identified(self, topic_id: bytes) -> Topic:
        """Return the topic of this id. Raises UNKNOWN_TOPIC_ID."""
        topic = self._by_id.get(topic_id)
        if topic is None:
            raise unknown_topic_id()
        return topic

    def by_number(self, number: TopicNumber) -> Topic | None:
        return self._by_number.get(number)

    def all(self) -> Iterator[Topic]:
        """Every topic, in the order of names; those that are only shown as well."""
        if self._order is None:
            self._order = sorted(self._by_name)
        return iter([self._by_name[name] for name in self._order])

    def derived(self, what: Hashable) -> "Derived":
        """Return what was made of topics under this name, by number, to be added to.

        What was made of another state of a topic is told by the topic beside it; what
        was made of a deleted one is dropped here.
        """
        return self._derived.setdefault(what, {})

    def __len__(self) -> int:
        """How many topics are stored."""
        return sum(topic.stored for topic in self._by_number.values())

    @staticmethod
    def is_valid_name(name: str) -> bool:
        """Whether a topic could be called so."""
        try:
            names.validate(name)
        except KafkaError:
            return False
        return True

    def check_new(
        self,
        name: str,
        partitions: int,
        configs: Mapping[str, str | None],
        beside: names.Taken | None = None,
    ) -> dict[str, str]:
        """The configurations as they will be stored, if such a topic may be made.

        Raises INVALID_TOPIC_EXCEPTION (bad name, or one that collides with another
        in the names of metrics, but for those that were made ``beside`` it by the same
        request), TOPIC_ALREADY_EXISTS, INVALID_PARTITIONS,
        POLICY_VIOLATION (too many partitions) or INVALID_CONFIG, as Kafka's
        ReplicationControlManager does.
        """
        names.validate(name)
        if name in self._by_name or name in self._pending:
            raise KafkaError(
                ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists."
            )
        if name in INTERNAL:
            raise _internal(name)
        self._check_collision(name, beside)
        if partitions <= 0:
            raise KafkaError(
                ErrorCode.INVALID_PARTITIONS,
                "Number of partitions was set to an invalid non-positive value.",
            )
        check_created_at_once(partitions)
        self._check_room(partitions)
        kept = topic_configs.validate(configs, self._defaults())
        warehouses.check_allowed(kept, self._further)
        return kept

    async def create(
        self,
        name: str,
        partitions: int,
        configs: Mapping[str, str | None],
        beside: names.Taken | None = None,
    ) -> Topic:
        """Make a topic with a new id and number; errors as ``check_new``.

        Its name is added to those ``beside``.
        """
        kept = self.check_new(name, partitions, configs, beside)
        beside = names.Taken() if beside is None else beside
        topic_id, now_ms = self._new_id(), self._clock.now_ms()
        pending = asyncio.get_running_loop().create_future()
        self._pending[name] = pending
        self._taken.add(name)
        beside.add(name)
        self._promised += partitions

        async def make() -> Topic:
            try:
                topic: Topic = await self._commit(
                    lambda connection: stored.create(
                        connection, name, topic_id, partitions, kept, now_ms
                    )
                )
                self._put(topic)
                for watcher in self._watchers:
                    watcher.topic_created(topic)
                return topic
            finally:
                self._promised -= partitions
                del self._pending[name]
                if name not in self._by_name:
                    self._taken.discard(name)
                    beside.discard(name)
                pending.cancel()

        return await to_the_end(make())

    async def ensure(
        self,
        name: str,
        partitions: int,
        configs: Mapping[str, str | None],
        beside: names.Taken | None = None,
    ) -> Topic:
        """The topic, created if need be; many may ask at once and one is made."""
        while name in self._pending:
            await asyncio.wait([self._pending[name]])
        topic = self._by_name.get(name)
        return topic or await self.create(name, partitions, configs, beside)

    async def delete(self, topic: Topic) -> None:
        """Delete a topic. It is gone for every client when this returns.

        Until the catalog has committed nothing changes: clients produce and fetch, and
        what segments hold of the topic is needed. So a deletion that fails, or that a
        crash overtakes, leaves the topic as it was. UNKNOWN_TOPIC_OR_PARTITION if
        another deletion was faster.
        """
        self._require(topic)
        now_ms = self._clock.now_ms()

        async def remove() -> None:
            await self._commit(
                lambda connection: stored.delete(connection, topic.number, now_ms)
            )
            self._drop(topic.number)

        await to_the_end(remove())

    async def add_partitions(self, topic: Topic, total: int) -> Topic:
        """Raise the number of partitions to ``total``; INVALID_PARTITIONS if it is
        not more than there are."""
        self.check_added(topic, total)
        added = total - topic.partitions
        self._promised += added

        async def grow() -> Topic:
            try:
                await self._commit(
                    lambda connection: stored.add_partitions(
                        connection, topic.number, total
                    )
                )
                return self._change(topic, lambda now: replace(now, partitions=total))
            finally:
                self._promised -= added

        return await to_the_end(grow())

    def check_added(self, topic: Topic, total: int) -> None:
        """Raise INVALID_PARTITIONS unless ``total`` is more than the topic has, and
        POLICY_VIOLATION if it is too many."""
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
        check_created_at_once(total - topic.partitions)
        self._check_room(total - topic.partitions)

    async def alter_configs(
        self, topic: Topic, edit: Callable[[Mapping[str, str]], dict[str, str]]
    ) -> Topic:
        """Change the topic's own configurations by ``edit``, one after the other.

        ``edit`` raises INVALID_CONFIG or INVALID_REQUEST for what cannot be.
        """

        async def alter() -> Topic:
            async with self._altering.setdefault(topic.number, asyncio.Lock()):
                self._require(topic)
                before = self._by_number[topic.number].configs
                kept = edit(before)
                warehouses.check_kept(before, kept)
                await self._commit(
                    lambda connection: stored.alter_configs(
                        connection, topic.number, kept
                    )
                )
                return self._change(topic, lambda now: replace(now, configs=kept))

        return await to_the_end(alter())

    async def set_log_starts(self, starts: Mapping[TopicPartition, int]) -> None:
        """Make new log starts of (number, partition) durable."""
        await self._commit(lambda connection: stored.set_log_start(connection, starts))

    def _commit(self, change: Callable[[Any], T]) -> Awaitable[T]:
        """What the change returned, when it is durable: a part of them in each turn."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def finished(done: Future[T]) -> None:
            """Called on the catalog's thread."""
            self._committed.put(loop, partial(_take_over, future, done))

        self._catalog.submit(change).add_done_callback(finished)
        return future

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
        known = self._by_number.get(topic.number)
        if topic.name not in self._by_name:
            if self._order is not None:
                insort(self._order, topic.name)
            self._taken.add(topic.name)
        if topic.stored:
            self._partitions += topic.partitions - (known.partitions if known else 0)
        self._by_name[topic.name] = topic
        self._by_id[topic.id] = topic
        self._by_number[topic.number] = topic

    def _drop(self, number: TopicNumber) -> None:
        topic = self._by_number.pop(number)
        if self._order is not None:
            del self._order[bisect_left(self._order, topic.name)]
        self._altering.pop(number, None)
        for made in self._derived.values():
            made.pop(number, None)
        self._partitions -= topic.partitions
        del self._by_name[topic.name]
        self._taken.discard(topic.name)
        del self._by_id[topic.id]
        for watcher in self._watchers:
            watcher.topic_deleted(topic)

    def _require(self, topic: Topic) -> None:
        if topic.number not in self._by_number:
            raise unknown_partition()
        if not topic.stored:
            raise _internal(topic.name)

    def _check_room(self, added: int) -> None:
        here = self._partitions + self._promised
        if here + added > self._partitions_max:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"This broker has {here} partition(s) and may have "
                f"{self._partitions_max} (broker.partitions_max): no room for {added}.",
            )

    def _check_collision(self, name: str, beside: names.Taken | None) -> None:
        other = self._taken.colliding(name, beside)
        if other is not None:
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"Topic '{name}' collides with existing topic: {other}",
            )


def _take_over(future: "asyncio.Future[T]", done: Future[T]) -> None:
    if future.cancelled():
        return
    error = done.exception()
    if error is None:
        future.set_result(done.result())
    else:
        future.set_exception(error)


def _internal(name: str) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        f"Topic '{name}' is internal: it cannot be made, written or changed.",
    )


def check_created_at_once(partitions: int) -> None:
    """Raise POLICY_VIOLATION for more partitions than one request may make."""
    if partitions > CREATED_AT_ONCE_MAX:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            "Excessively large number of partitions per request.",
        )


async def to_the_end(change: Coroutine[Any, Any, T]) -> T:
    """The change's result; it runs to its end even if the caller is cancelled.

    A commit cannot be called back, so what follows it must not be left out.
    """
    return await asyncio.shield(asyncio.get_running_loop().create_task(change))
