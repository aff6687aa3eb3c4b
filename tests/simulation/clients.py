"""Clients as actors: they speak real frames, retry as clients do, and tell the model.

Each lives on the clients' loop until it is told to finish, survives whatever happens to
the broker, and has chance of its own, so that what one does hardly changes another.
"""

import asyncio
import random
from collections.abc import Awaitable, Iterable
from typing import Any, TypeVar

from broker.protocol.errors import ErrorCode
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from broker.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from broker.records.batch import HEADER_BYTES, checksum, read_header
from broker.records.layout import TRANSACTIONAL_BIT
from broker.records.markers import read_marker
from tests.simulation.model import Model, PartitionModel, TopicModel, Violation
from tests.simulation.network import Disconnected, Link, Network
from tests.simulation.world import World
from tests.support.batches import Record, make_batch, read_batch

T = TypeVar("T")

PATIENCE_S = 20.0
PRODUCE_VERSION = 9
FETCH_VERSION = 12
LIST_VERSION = 7
EARLIEST, LATEST = -2, -1


class Town:
    """What all clients share."""

    def __init__(self, world: World, network: Network, model: Model) -> None:
        self.world, self.network, self.model = world, network, model
        self.finishing = False
        self.trouble = False
        """Whether something is being done to the broker, which may show as errors."""
        self.cuts = 0
        """How often the power was cut."""
        self.in_order = True
        """Whether requests that leave together are held to take effect in order."""
        self.topics: list[TopicModel] = []
        """Those that were acknowledged, and that nobody wants to delete."""


class Client:
    """One client with one connection at a time."""

    def __init__(self, town: Town, name: str) -> None:
        self.town, self.model, self.name = town, town.model, name
        self.chance = random.Random(f"{town.world.seed} {name}")
        self._link: Link | None = None

    async def run(self) -> None:
        """Work until the town finishes."""
        while not self.town.finishing:
            try:
                await self.work()
            except Disconnected:
                self.disconnect()
                await self.pause(5, 200)
            await self.pause(0, 40)
        await self.finish()

    async def work(self) -> None:
        raise NotImplementedError

    async def finish(self) -> None:
        """What must still be done at the end."""

    async def pause(self, least_ms: int, most_ms: int) -> None:
        await asyncio.sleep(self.chance.randint(least_ms, most_ms) / 1000)

    async def link(self) -> Link:
        if self._link is None or not self._link.open:
            self._link = await self.town.network.connect(self.name)
        return self._link

    def disconnect(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None

    async def ask(self, request: Any, version: int) -> Any:
        """The response; raises Disconnected if there is none in time."""
        return await self.answer((await self.link()).ask(request, version))

    async def ask_both(
        self, first: tuple[Any, int], second: tuple[Any, int]
    ) -> tuple[Any, Any]:
        """Two requests that leave together, and what was answered to both."""
        link = await self.link()
        one, answer = link.frame(*first)
        two, answer_to_second = link.frame(*second)
        link.send(one + two, whole=self.chance.random() < 0.8)
        return await self.answer(answer), await self.answer(answer_to_second)

    async def answer(self, future: Awaitable[T]) -> T:
        try:
            return await asyncio.wait_for(future, PATIENCE_S)
        except TimeoutError:
            self.disconnect()
            raise Disconnected("no answer in time") from None

    def tell(self, what: str) -> None:
        self.town.world.tell(f"{self.name}: {what}")

    # pieces that several clients need

    def a_partition(self) -> tuple[TopicModel, int] | None:
        topics = self.town.topics
        if not topics:
            return None
        topic = self.chance.choice(topics)
        return topic, self.chance.randrange(len(topic.partitions))

    def some_values(self, part: PartitionModel, producer: str, number: int) -> list:
        """New values, which the model knows to be on their way."""
        values = []
        for _ in range(self.chance.choice((1, 1, 2, 5))):
            text = f"{self.name}.{number}.{len(values)}.".encode()
            size = self.chance.choice((0, 10, 100, 900, 4000))
            value = text + b"x" * self.chance.randint(0, size)
            part.send(value, producer, number)
            values.append(value)
        return values

    async def list_offset(self, topic: str, index: int, which: int) -> int | None:
        """An end or start as the broker tells it; None: it refused."""
        part = self.model.topics[topic].partitions[index]
        end, start = part.end, part.start
        answer = await self.ask(list_request(topic, index, which), LIST_VERSION)
        found = answer.topics[0].partitions[0]
        if found.error_code:
            self.refused(topic, found.error_code, "ListOffsets")
            return None
        self.saw_offset(part, which, found.offset, end, start)
        offset: int = found.offset
        return offset

    def saw_offset(
        self, part: PartitionModel, which: int, offset: int, end: int, start: int
    ) -> None:
        self.tell(f"{part.name} {'end' if which == LATEST else 'start'} {offset}")
        if which == LATEST:
            part.saw_end(offset, end, f"{self.name} ListOffsets")
        else:
            part.saw_start(offset, start, f"{self.name} ListOffsets")

    def refused(self, topic: str, code: int, how: str) -> None:
        """The broker refused; is that possible now?"""
        self.tell(f"{how} {topic} refused {code}")
        model = self.model.topics[topic]
        gone = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
        if code in gone and model.created and not model.delete_asked:
            raise Violation(f"{topic} is unknown to {how}, nobody deleted it")
        if code == ErrorCode.CORRUPT_MESSAGE:
            raise Violation(f"{topic} is corrupt for {how} of {self.name}")


def list_request(topic: str, index: int, which: int) -> ListOffsetsRequest:
    parts = [ListOffsetsPartition(index, timestamp=which)]
    return ListOffsetsRequest(-1, topics=[ListOffsetsTopic(topic, parts)])


def batch_of(
    values: list[bytes],
    now_ms: int,
    producer: tuple[int, int, int] = (-1, -1, -1),
    attributes: int = 0,
) -> bytearray:
    records = [Record(value=value, timestamp=now_ms) for value in values]
    return make_batch(records, producer=producer, attributes=attributes)


def produce_request(
    topic: str, index: int, batch: bytearray, acks: int = -1
) -> ProduceRequest:
    data = TopicProduceData(topic, partition_data=[PartitionProduceData(index, batch)])
    return ProduceRequest(None, acks, 10_000, [data])


class PlainProducer(Client):
    """Without idempotence: what was not answered is not sent again."""

    number = 0

    async def work(self) -> None:
        place = self.a_partition()
        if place is None:
            return
        topic, index = place
        part = topic.partitions[index]
        link = await self.link()
        sent = []
        for _ in range(self.chance.choice((1, 1, 1, 3, 8))):
            self.number += 1
            values = self.some_values(part, self.name, self.number)
            batch = batch_of(values, self.town.world.now_ms())
            future = link.ask(
                produce_request(topic.name, index, batch), PRODUCE_VERSION
            )
            sent.append((values, future))
        for values, future in sent:
            answer = await self.answer(future)
            self.answered(part, values, answer.responses[0].partition_responses[0])

    def answered(self, part: PartitionModel, values: list[bytes], answer: Any) -> None:
        if not answer.error_code:
            self.tell(f"{part.name} has {values[0][:20]!r} at {answer.base_offset}")
            self.model.acknowledged += len(values)
            for offset, value in enumerate(values, answer.base_offset):
                part.note(offset, value, "acknowledged")
            return
        self.refused(part.name.rpartition("-")[0], answer.error_code, "Produce")
        if answer.error_code != ErrorCode.REQUEST_TIMED_OUT:
            for value in values:
                part.refuse(value, ErrorCode(answer.error_code).name)


class Consumer(Client):
    """Reads a partition from its start on; begins anew at times."""

    position = 0
    in_peace = False
    """Nothing is wrong any more: whatever is refused now is lost."""
    committed = False
    """Reads what is committed alone."""
    place: tuple[TopicModel, int] | None = None

    async def work(self) -> None:
        if self.place is None or self.chance.random() < 0.02:
            self.place, self.position = self.a_partition(), -1
        if self.place is None:
            return
        topic, index = self.place
        if self.position < 0:
            start = await self.list_offset(topic.name, index, EARLIEST)
            self.position = -1 if start is None else start
        elif self.chance.random() < 0.05:
            await self.list_offset(topic.name, index, LATEST)
        else:
            await self.fetch(topic, index, self.chance.choice((0, 100, 500)))

    async def fetch(self, topic: TopicModel, index: int, wait_ms: int) -> bool:
        """One fetch; whether it is at the end."""
        part, position = topic.partitions[index], self.position
        end, stable = part.end, part.stable
        request = FetchRequest(
            max_wait_ms=wait_ms, min_bytes=1, max_bytes=1 << 20,
            isolation_level=int(self.committed),
            topics=[FetchTopic(topic.name, partitions=[FetchPartition(
                index, fetch_offset=position,
                partition_max_bytes=self.chance.choice((100, 5_000, 1 << 20)),
            )])],
        )  # fmt: skip
        answer = await self.ask(request, FETCH_VERSION)
        data = answer.responses[0].partitions[0]
        how = f"{self.name} at {position}"
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            part.out_of_range(position, how)
            self.position = -1
            return False
        if data.error_code:
            self.refused(topic.name, data.error_code, "Fetch")
            if self.in_peace:
                raise Violation(f"{how} of {part.name} is told {data.error_code}")
            await self.pause(50, 300)
            return False
        part.saw_end(data.high_watermark, end, how)
        part.saw_stable(data.last_stable_offset, stable, how)
        aborted = data.aborted_transactions if self.committed else None
        records, self.position = read_records(data.records, position, aborted or ())
        self.tell(
            f"{part.name} read {position}-{self.position} of {data.high_watermark}"
        )
        part.read(position, self.position, records, how, committed=self.committed)
        self.model.read += len(records)
        return self.position >= data.high_watermark

    async def read_all(self, topic: TopicModel, index: int) -> None:
        """Every record from the start to the end; then the order is looked at."""
        self.position = -1
        while self.position < 0:
            start = await self.list_offset(topic.name, index, EARLIEST)
            self.position = -1 if start is None else start
        while not await self.fetch(topic, index, 0):
            if self.position < 0:
                start = await self.list_offset(topic.name, index, EARLIEST)
                self.position = -1 if start is None else start
        end = topic.partitions[index].end
        if self.position < end:
            raise Violation(f"{topic.name}-{index} ends at {self.position}, not {end}")
        topic.partitions[index].check_order()


def read_records(
    records: Any, position: int, aborted: Iterable[Any] = ()
) -> tuple[list[tuple[int, bytes]], int]:
    """(offset, value) of all records in what was fetched, but for those of ``aborted``
    transactions, and where to go on."""
    view, found = memoryview(records or b""), []
    left = sorted(aborted, key=lambda one: one.first_offset, reverse=True)
    dropped: set[int] = set()
    while len(view) >= HEADER_BYTES:
        header = read_header(view)
        if header.size > len(view):
            break
        if header.size < HEADER_BYTES:
            raise Violation(f"a batch of {header.size} bytes at {position}")
        batch = view[: header.size]
        if checksum(batch) != header.crc:
            raise Violation(f"the batch at {header.base_offset} fails its checksum")
        while left and left[-1].first_offset <= header.last_offset:
            dropped.add(left.pop().producer_id)
        is_dropped = header.producer_id in dropped
        if header.is_control:
            if not read_marker(batch).commit:
                dropped.discard(header.producer_id)
        elif not (is_dropped and header.attributes & TRANSACTIONAL_BIT):
            found += [
                (one.offset, one.value or b"") for one in read_batch(bytes(batch))
            ]
        position = max(position, header.last_offset + 1)
        view = view[header.size :]
    return found, position
