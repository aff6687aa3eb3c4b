"""The broker, as the admin plane sees it: through a Kafka client like any other.

Every method waits without holding the loop, and at most ``timeout_s``. It raises
librdkafka's KafkaException: what the broker answered, or that it did not answer.
"""

import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AdminClient,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
    TopicMetadata,
)

TIMEOUT_S = 10.0
RESOURCES_A_TURN = 100
"""Whose configurations are asked for in one turn of the loop."""
PATIENT_S = 3600.0
"""What librdkafka is told of questions to a group's coordinator, whose deadline is kept
here. After its own it fails an assertion, and ends the process, once the coordinator's
address comes after all or its connection breaks (librdkafka's issue 4605); or it asks
no coordinator again. Its longest."""
_GRACE_S = 1.0
"""librdkafka keeps the deadline itself, and says more of it than we could."""
_due_s: ContextVar[float | None] = ContextVar("due_s", default=None)
"""By the loop's time: when all questions for one answer have to be answered."""

COMMITTED = IsolationLevel.READ_COMMITTED
UNCOMMITTED = IsolationLevel.READ_UNCOMMITTED

GONE = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
    }
)
"""What is said of a topic or a partition that is not there (any more)."""
OF_ONE_GROUP = frozenset(
    {
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.GROUP_ID_NOT_FOUND,
        KafkaError.INCONSISTENT_GROUP_PROTOCOL,
        KafkaError.INVALID_GROUP_ID,
    }
)
"""What is said of a group that cannot be asked for while others can."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Watermarks:
    """Where the log of a partition begins and ends; both ends are exclusive."""

    log_start: int
    last_stable_offset: int
    high_watermark: int


def _offsets_of(
    asked: Mapping[TopicPartition, "Future[Any]"], timeout_s: float
) -> dict[tuple[str, int], int]:
    """What list_offsets answered; nothing for partitions that are not there."""
    found = {}
    for partition, future in asked.items():
        try:
            offset = future.result(timeout_s).offset
        except KafkaException as error:
            if error.args[0].code() not in GONE:
                raise
        else:
            found[partition.topic, partition.partition] = offset
    return found


def _marks_of(
    asked: Sequence[Mapping[TopicPartition, "Future[Any]"]],
) -> dict[tuple[str, int], Watermarks]:
    answers = [_offsets_of(one, _GRACE_S) for one in asked]
    common = answers[0].keys() & answers[1].keys() & answers[2].keys()
    return {key: Watermarks(*(one[key] for one in answers)) for key in common}


async def _heard(asked: "Future[Any]") -> None:
    """Wait until librdkafka has answered. It is not told when nobody waits any more:
    it answers all the same, and would fail at a question that was cancelled."""
    loop, heard = asyncio.get_running_loop(), asyncio.Event()

    def answered(_: "Future[Any]") -> None:
        with suppress(RuntimeError):  # the loop ended meanwhile
            loop.call_soon_threadsafe(heard.set)

    asked.add_done_callback(answered)
    await heard.wait()


def _client(bootstrap: str) -> AdminClient:
    return AdminClient(
        {
            "bootstrap.servers": bootstrap,
            "socket.connection.setup.timeout.ms": 3000,
            "log_level": 2,
            "error_cb": lambda _error: None,
        }
    )


class Kafka:
    """A thin face over librdkafka's admin client."""

    def __init__(self, bootstrap: str, timeout_s: float = TIMEOUT_S) -> None:
        self.bootstrap = bootstrap
        self.timeout_s = timeout_s
        self._client = _client(bootstrap)
        self._outdated: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """From now on what is asked in this context has the time of one question
        together."""
        now_s = asyncio.get_running_loop().time()
        _due_s.set(now_s + self.timeout_s + _GRACE_S)

    async def cluster(self, timeout_s: float | None = None) -> Any:
        """The cluster's id, its controller and its nodes."""
        deadline_s = timeout_s or self.timeout_s
        asked = self._client.describe_cluster(request_timeout=deadline_s)
        return await self._answer(asked, deadline_s)

    async def topics(self) -> dict[str, TopicMetadata]:
        """Every topic by its name, with its partitions."""
        listing = asyncio.to_thread(self._client.list_topics, timeout=self.timeout_s)
        found = await self._within(listing, self.timeout_s)
        topics: dict[str, TopicMetadata] = found.topics
        return topics

    async def describe_topics(
        self,
        names: Sequence[str],
        operations: bool = False,
        *,
        missing_ok: bool = False,
        timeout_s: float | None = None,
    ) -> list[Any]:
        """The named topics, as librdkafka's TopicDescription; with ``missing_ok``
        without those that are not there (any more)."""
        if not names:
            return []
        asked = self._client.describe_topics(
            TopicCollection(list(names)),
            include_authorized_operations=operations,
            request_timeout=timeout_s or self.timeout_s,
        )
        found = [await self._there(asked[name], missing_ok) for name in names]
        return [one for one in found if one is not None]

    async def create_topic(self, topic: NewTopic, validate_only: bool) -> None:
        """The topic is made, or was found right."""
        asked = self._client.create_topics(
            [topic], validate_only=validate_only, **self._deadlines
        )
        await self._answer(asked[topic.topic])

    async def delete_topic(self, name: str) -> None:
        """The topic is gone."""
        asked = self._client.delete_topics([name], **self._deadlines)
        await self._answer(asked[name])

    async def create_partitions(self, topic: str, count: int) -> None:
        """The topic has ``count`` partitions."""
        wanted = [NewPartitions(topic, count)]
        asked = self._client.create_partitions(wanted, **self._deadlines)
        await self._answer(asked[topic])

    async def configs(
        self, resources: Sequence[ConfigResource], *, missing_ok: bool = False
    ) -> list[Mapping[str, Any]]:
        """Their configurations by name, as librdkafka's ConfigEntry; with
        ``missing_ok`` those that are not there (any more) have none."""
        asked: dict[ConfigResource, Future[Mapping[str, Any]]] = {}
        for start in range(0, len(resources), RESOURCES_A_TURN):
            some = list(resources[start : start + RESOURCES_A_TURN])
            asked |= self._client.describe_configs(some, request_timeout=self.timeout_s)
            await asyncio.sleep(0)  # to ask for these took a millisecond or two
        found = [await self._there(asked[one], missing_ok) for one in resources]
        return [one or {} for one in found]

    async def alter_configs(
        self, resources: Sequence[ConfigResource], validate_only: bool
    ) -> list[KafkaException | None]:
        """What each resource carries is altered, or was found right; else why not.

        All are asked for at once, each resource once at most.
        """
        asked: dict[ConfigResource, Future[None]] = {}
        for start in range(0, len(resources), RESOURCES_A_TURN):
            asked |= self._client.incremental_alter_configs(
                list(resources[start : start + RESOURCES_A_TURN]),
                validate_only=validate_only,
                request_timeout=self.timeout_s,
            )
            await asyncio.sleep(0)  # as above
        return [await self._why_not(asked[one]) for one in resources]

    async def missing_topics(self, names: Sequence[str]) -> dict[str, KafkaException]:
        """Those of the names that no topic has, or nobody can say, and why."""
        if not names:
            return {}
        asked = self._client.describe_topics(
            TopicCollection(list(names)), request_timeout=self.timeout_s
        )
        found = [(name, await self._why_not(asked[name])) for name in names]
        return {name: why for name, why in found if why is not None}

    async def offsets(
        self,
        partitions: Iterable[tuple[str, int]],
        spec: OffsetSpec,
        isolation: IsolationLevel = COMMITTED,
    ) -> dict[tuple[str, int], int]:
        """The offset that ``spec`` means, of each partition that is there: among those
        that are committed, unless ``isolation`` says otherwise."""
        places = list(partitions)
        try:
            return await self._offsets(places, spec, isolation)
        except KafkaException as error:
            left = await self._left_of(places, error, self.timeout_s)
        return await self._offsets(left, spec, isolation)

    async def _offsets(
        self,
        places: Sequence[tuple[str, int]],
        spec: OffsetSpec,
        isolation: IsolationLevel,
    ) -> dict[tuple[str, int], int]:
        if not places:
            return {}
        wanted = {TopicPartition(*one): spec for one in places}
        asked = self._client.list_offsets(
            wanted,
            isolation_level=isolation,
            request_timeout=self.timeout_s,
        )
        found: dict[tuple[str, int], int] = {}
        for partition, future in asked.items():
            try:
                answer = await self._answer(future)
            except KafkaException as error:
                if error.args[0].code() not in GONE:
                    raise
            else:
                found[partition.topic, partition.partition] = answer.offset
        return found

    async def _left_of(
        self, asked: Sequence[tuple[str, int]], error: KafkaException, wait_s: float
    ) -> list[tuple[str, int]]:
        """Those partitions that are there, where librdkafka found a leader of none: so
        it says it of topics that are just being deleted. Raises the error if it says
        another thing, or all of them are there."""
        if error.args[0].code() != KafkaError._NOENT:
            raise error
        names = list(dict.fromkeys(topic for topic, _ in asked))
        found = await self.describe_topics(names, missing_ok=True, timeout_s=wait_s)
        there = {(one.name, part.id) for one in found for part in one.partitions}
        left = [one for one in asked if one in there]
        if len(left) == len(asked):
            raise error
        return left

    async def watermarks(
        self, partitions: Sequence[tuple[str, int]], timeout_s: float
    ) -> dict[tuple[str, int], Watermarks]:
        """Where the logs begin and end, of each partition that is there.

        They may be thousands, so they are asked for and gathered on a thread, which is
        free in between: a broker that hangs holds up nothing else that wants one.
        """
        if not partitions:
            return {}
        deadline_s = min(timeout_s, self.timeout_s)
        asked = await asyncio.to_thread(self._ask_watermarks, partitions, deadline_s)
        for one in asked:
            with suppress(TimeoutError):  # together asked, together answered
                last = _heard([*one.values()][-1])
                await asyncio.wait_for(last, deadline_s + _GRACE_S)
        try:
            return await self._within(asyncio.to_thread(_marks_of, asked), deadline_s)
        except KafkaException as error:
            left = await self._left_of(partitions, error, deadline_s)
        return await self.watermarks(left, timeout_s)

    def _ask_watermarks(
        self, partitions: Sequence[tuple[str, int]], timeout_s: float
    ) -> list[Mapping[TopicPartition, "Future[Any]"]]:
        questions = (
            (OffsetSpec.earliest(), UNCOMMITTED),
            (OffsetSpec.latest(), COMMITTED),
            (OffsetSpec.latest(), UNCOMMITTED),
        )
        return [
            self._client.list_offsets(
                {TopicPartition(*one): spec for one in partitions},
                isolation_level=level,
                request_timeout=timeout_s,
            )
            for spec, level in questions
        ]

    async def groups(self) -> dict[str, Any]:
        """All consumer groups by their ids, as librdkafka's ConsumerGroupListing. It
        ends an id at a zero in it, so that one may come twice. Raises what one broker
        could not answer."""
        asked = self._client.list_consumer_groups(request_timeout=self.timeout_s)
        found = await self._answer(asked)
        for error in found.errors:
            raise KafkaException(error)
        return {group.group_id: group for group in found.valid}

    async def describe_group(self, group_id: str) -> Any:
        """The group, as librdkafka's ConsumerGroupDescription."""
        [found] = await self.describe_groups([group_id])
        if isinstance(found, KafkaException):
            raise found
        return found

    async def describe_groups(self, ids: Sequence[str]) -> list[Any]:
        """The groups, as librdkafka's ConsumerGroupDescription; or why not, for one
        that cannot be described while others can."""
        if not ids:
            return []
        asked = self._client.describe_consumer_groups(
            list(ids), request_timeout=PATIENT_S
        )
        return [await self._described(group_id, asked[group_id]) for group_id in ids]

    async def _described(self, group_id: str, asked: "Future[Any]") -> Any:
        try:
            return await self._from_coordinator(asked)
        except KafkaException as error:
            if error.args[0].code() == KafkaError._DESTROY:
                # librdkafka's word for an answer that it cannot read
                why = (
                    f"A member of the group {group_id} has an assignment that is not "
                    "written as those of Kafka's consumers."
                )
                code = KafkaError.INCONSISTENT_GROUP_PROTOCOL
                return KafkaException(KafkaError(code, why))
            if error.args[0].code() in OF_ONE_GROUP:
                return error
            raise

    async def committed(self, group_id: str) -> dict[tuple[str, int], int]:
        """The offset that the group committed of each partition that it did for."""
        if not group_id:
            why = "librdkafka asks for no offsets of a group whose id is empty."
            raise KafkaException(KafkaError(KafkaError.INVALID_GROUP_ID, why))
        asked = self._client.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group_id)], request_timeout=PATIENT_S
        )
        found = await self._from_coordinator(asked[group_id])
        return {
            (one.topic, one.partition): one.offset
            for one in found.topic_partitions
            if one.offset >= 0
        }

    async def committed_or_none(
        self, group_id: str
    ) -> dict[tuple[str, int], int] | None:
        """The same; None for a group that cannot be asked for while others can."""
        try:
            return await self.committed(group_id)
        except KafkaException as error:
            if error.args[0].code() not in OF_ONE_GROUP:
                raise
            return None

    async def commit(
        self, group_id: str, offsets: Mapping[tuple[str, int], int]
    ) -> None:
        """The group has committed these offsets. Raises what one of them came to."""
        parts = [TopicPartition(*key, offset) for key, offset in offsets.items()]
        asked = self._client.alter_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group_id, parts)],
            request_timeout=self.timeout_s,
        )
        found = await self._answer(asked[group_id])
        for one in found.topic_partitions:
            if one.error is not None:
                raise KafkaException(one.error)

    async def acls(self, wanted: AclBindingFilter) -> list[AclBinding]:
        """The ACLs that match. Raises SECURITY_DISABLED without an authorizer.

        librdkafka drops that answer of the broker and gives none: so we look.
        """
        asked = self._client.describe_acls(wanted, request_timeout=self.timeout_s)
        found = list(await self._answer(asked))
        if not found and not await self._has_authorizer():
            why = "No Authorizer is configured on the broker"
            raise KafkaException(KafkaError(KafkaError.SECURITY_DISABLED, why))
        return found

    async def create_acls(self, wanted: Iterable[AclBinding]) -> None:
        """All are there."""
        asked = self._client.create_acls(
            list(dict.fromkeys(wanted)), request_timeout=self.timeout_s
        )
        for future in asked.values():
            await self._answer(future)

    async def delete_acls(self, wanted: AclBindingFilter) -> list[AclBinding]:
        """Those that matched are gone; they."""
        asked = self._client.delete_acls([wanted], request_timeout=self.timeout_s)
        return list(await self._answer(asked[wanted]))

    async def _has_authorizer(self) -> bool:
        controller = (await self.cluster()).controller
        resource = ConfigResource(ResourceType.BROKER, str(controller.id))
        [configs] = await self.configs([resource])
        named = configs.get("authorizer.class.name")
        return named is not None and bool(named.value)

    @property
    def _deadlines(self) -> dict[str, float]:
        return {"operation_timeout": self.timeout_s, "request_timeout": self.timeout_s}

    async def _there(self, asked: "Future[Any]", missing_ok: bool) -> Any:
        """The answer; None where it is that there is no such topic, and it may be."""
        try:
            return await self._answer(asked)
        except KafkaException as error:
            if missing_ok and error.args[0].code() in GONE:
                return None
            raise

    async def _why_not(self, asked: "Future[Any]") -> KafkaException | None:
        """Why the answer is none; None if it is one."""
        try:
            await self._answer(asked)
        except KafkaException as error:
            return error
        return None

    async def _from_coordinator(self, asked: "Future[T]") -> T:
        """What a group's coordinator answers. After a minute's hang a client may wait
        for a connection to it for ever, beside one that is well: who comes after a
        question that timed out asks a new client."""
        try:
            return await self._answer(asked)
        except KafkaException as error:
            if error.args[0].code() == KafkaError._TIMED_OUT:
                self._renew()
            raise

    def _renew(self) -> None:
        """A new client, and no second one while the last still answers."""
        if self._outdated is None or self._outdated.done():
            self._outdated = asyncio.create_task(self._drop([self._client]))
            self._client = _client(self.bootstrap)

    async def _drop(self, clients: list[AdminClient]) -> None:
        await asyncio.sleep(self.timeout_s + _GRACE_S)
        await asyncio.to_thread(clients.clear)  # its threads are waited for

    async def _answer(self, asked: "Future[T]", timeout_s: float | None = None) -> T:
        await self._within(_heard(asked), timeout_s or self.timeout_s)
        return asked.result()

    async def _within(self, waited: Awaitable[T], timeout_s: float) -> T:
        """Raises KafkaException _TIMED_OUT when nothing came."""
        wait_s, due_s = timeout_s + _GRACE_S, _due_s.get()
        if due_s is not None:
            wait_s = min(wait_s, due_s - asyncio.get_running_loop().time())
        try:
            return await asyncio.wait_for(waited, wait_s)
        except TimeoutError:
            why = f"The broker at {self.bootstrap} did not answer in {timeout_s:g} s."
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, why)) from None
