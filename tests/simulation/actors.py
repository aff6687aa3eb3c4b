"""More clients: those with sequences, groups and topics, and one without manners."""

import struct
from collections import deque
from dataclasses import dataclass
from typing import Any

from broker.protocol.errors import ErrorCode
from broker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from broker.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from broker.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicState,
)
from broker.protocol.messages.init_producer_id import InitProducerIdRequest
from broker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from broker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from broker.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.simulation.clients import (
    EARLIEST,
    LATEST,
    LIST_VERSION,
    PRODUCE_VERSION,
    Client,
    PlainProducer,
    Town,
    batch_of,
    list_request,
    produce_request,
)
from tests.simulation.model import TopicModel, Violation
from tests.simulation.network import Disconnected
from tests.support.wire import frame_of

COMMIT_VERSION, OFFSET_FETCH_VERSION = 8, 8
WINDOW = 5


@dataclass
class _Unanswered:
    """A batch that keeps its sequence until it is answered."""

    values: list[bytes]
    sequence: int


class IdempotentProducer(Client):
    """Up to five batches in flight; what was not acknowledged is sent again as it was,
    in order, until it is."""

    def __init__(self, town: Town, name: str, place: tuple[TopicModel, int]) -> None:
        super().__init__(town, name)
        self.topic, self.index = place
        self.part = place[0].partitions[place[1]]
        self.number = 0
        self._id: tuple[int, int] | None = None
        self._sequence = 0
        self._unanswered: deque[_Unanswered] = deque()

    async def work(self) -> None:
        if self._id is None:
            await self._begin()
            return
        for _ in range(self.chance.randint(0, WINDOW)):
            if len(self._unanswered) < WINDOW:
                self._add()
        await self._send_all()

    async def finish(self) -> None:
        while self._unanswered:
            try:
                await self._send_all()
            except Disconnected:
                self.disconnect()
            await self.pause(10, 200)

    async def _begin(self) -> None:
        answer = await self.ask(InitProducerIdRequest(None, 60_000), 4)
        if answer.error_code:
            await self.pause(50, 300)
            return
        self._id, self._sequence = (answer.producer_id, answer.producer_epoch), 0
        self.tell(f"is producer {answer.producer_id}")

    def _add(self) -> None:
        self.number += 1
        values = self.some_values(self.part, self.name, self.number)
        self._unanswered.append(_Unanswered(values, self._sequence))
        self._sequence += len(values)

    async def _send_all(self) -> None:
        """Everything unanswered, once, in order; then hear what became of each."""
        link = await self.link()
        assert self._id is not None
        sent = []
        for one in list(self._unanswered):
            batch = batch_of(
                one.values, self.town.world.now_ms(), (*self._id, one.sequence)
            )
            request = produce_request(self.topic.name, self.index, batch)
            sent.append((one, link.ask(request, PRODUCE_VERSION)))
        failed = False
        for one, future in sent:
            response = await self.answer(future)
            answer = response.responses[0].partition_responses[0]
            if not answer.error_code:
                self._acknowledged(one, answer.base_offset, behind_a_failure=failed)
            else:
                self._refused(answer, first=not failed)
                failed = True
        if failed:
            await self.pause(20, 300)

    def _acknowledged(
        self, one: _Unanswered, base: int, *, behind_a_failure: bool
    ) -> None:
        self.tell(f"{self.part.name} has {one.values[0][:20]!r} at {base}")
        if behind_a_failure:
            raise Violation(f"{self.name}: acknowledged behind one that was refused")
        self.model.acknowledged += len(one.values)
        for offset, value in enumerate(one.values, base):
            self.part.note(offset, value, f"acknowledged to {self.name}")
        self._unanswered.remove(one)

    def _refused(self, answer: Any, *, first: bool) -> None:
        self.refused(self.topic.name, answer.error_code, "Produce")
        sequence_codes = (
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            ErrorCode.INVALID_PRODUCER_EPOCH,
            ErrorCode.UNKNOWN_PRODUCER_ID,
            ErrorCode.DUPLICATE_SEQUENCE_NUMBER,  # of the last five it is told where
        )
        if first and answer.error_code in sequence_codes:
            name = ErrorCode(answer.error_code).name
            raise Violation(f"{self.name} is in order and is told {name}")


class Committer(Client):
    """Commits growing offsets of a group of its own, and reads them back."""

    committed = 0

    async def work(self) -> None:
        place = self.a_partition()
        if place is None:
            return
        topic, index = place
        group = f"group-{self.name}"
        known = self.model.committed(group, topic.name, index)
        before = known.acknowledged
        if self.chance.random() < 0.5:
            self.committed += 1
            known.ask(self.committed)
            commit = commit_request(group, topic.name, index, self.committed)
            if self.chance.random() < 0.5:
                answer, fetched = await self.ask_both(
                    (commit, COMMIT_VERSION),
                    (fetch_request(group, topic.name, index), OFFSET_FETCH_VERSION),
                )
            else:
                answer, fetched = await self.ask(commit, COMMIT_VERSION), None
            code = answer.topics[0].partitions[0].error_code
            self.tell(f"commit {self.committed} of {topic.name}-{index}: {code}")
            if not code:
                known.acknowledge(self.committed)
                before = self.committed if self.town.in_order else before
        else:
            request = fetch_request(group, topic.name, index)
            fetched = await self.ask(request, OFFSET_FETCH_VERSION)
        if fetched is not None and not fetched.groups[0].error_code:
            found = fetched.groups[0].topics[0].partitions[0]
            if not found.error_code:
                known.saw(found.committed_offset, before, self.name)


def commit_request(
    group: str, topic: str, index: int, offset: int
) -> OffsetCommitRequest:
    parts = [OffsetCommitRequestPartition(index, offset, committed_metadata="")]
    topics = [OffsetCommitRequestTopic(topic, partitions=parts)]
    return OffsetCommitRequest(group, topics=topics)


def fetch_request(group: str, topic: str, index: int) -> OffsetFetchRequest:
    topics = [OffsetFetchRequestTopics(topic, partition_indexes=[index])]
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=topics)])


async def look_at_offset(client: Client, group: str, topic: str, index: int) -> None:
    """Ask for a committed offset, be it stable or not, and hold it against what was
    acknowledged before."""
    known = client.model.committed(group, topic, index)
    before = known.acknowledged
    asked = fetch_request(group, topic, index)
    asked.require_stable = client.chance.random() < 0.5
    answer = (await client.ask(asked, OFFSET_FETCH_VERSION)).groups[0]
    found = None if answer.error_code else answer.topics[0].partitions[0]
    if found is not None and not found.error_code:
        client.tell(f"{known.name} is committed up to {found.committed_offset}")
        known.saw(found.committed_offset, before, client.name)


class Impatient(PlainProducer):
    """Sends a request, and in the same breath one that asks for its effect."""

    async def work(self) -> None:
        place = self.a_partition()
        if place is None:
            return
        topic, index = place
        if self.chance.random() < 0.7:
            await self._produce_and_look(topic, index)
        else:
            await self._delete_and_look(topic, index)

    async def _produce_and_look(self, topic: TopicModel, index: int) -> None:
        part = topic.partitions[index]
        self.number += 1
        values = self.some_values(part, self.name, self.number)
        request = produce_request(
            topic.name, index, batch_of(values, self.town.world.now_ms())
        )
        produced, listed = await self.ask_both(
            (request, PRODUCE_VERSION),
            (list_request(topic.name, index, LATEST), LIST_VERSION),
        )
        answer = produced.responses[0].partition_responses[0]
        self.answered(part, values, answer)
        found = listed.topics[0].partitions[0]
        if not answer.error_code and not found.error_code:
            end = answer.base_offset + len(values) if self.town.in_order else 0
            part.saw_end(found.offset, end, f"{self.name} right behind its produce")

    async def _delete_and_look(self, topic: TopicModel, index: int) -> None:
        part = topic.partitions[index]
        offset = self.chance.choice((part.end * 3 // 4, part.end, part.end))
        offset = self.chance.randint(part.start, max(part.start, offset))
        if self.chance.random() < 0.3:
            offset = part.end
        part.start_asked = max(part.start_asked, offset)
        start = part.start
        asked = DeleteRecordsTopic(topic.name, [DeleteRecordsPartition(index, offset)])
        deleted, listed = await self.ask_both(
            (DeleteRecordsRequest([asked], 5_000), 2),
            (list_request(topic.name, index, EARLIEST), LIST_VERSION),
        )
        result = deleted.topics[0].partitions[0]
        self.tell(f"{part.name} delete below {offset}: {result.error_code}")
        found = listed.topics[0].partitions[0]
        if not result.error_code:
            part.saw_start(result.low_watermark, max(start, offset), self.name)
            start = max(start, offset) if self.town.in_order else 0
        if not found.error_code:
            part.saw_start(found.offset, start, f"{self.name} behind its delete")


class Vandal(PlainProducer):
    """Sends good produces with something behind them that no broker understands."""

    async def work(self) -> None:
        await self.pause(20, 300)
        place = self.a_partition()
        if place is None:
            return
        topic, index = place
        link = await self.link()
        data = b""
        for _ in range(self.chance.choice((1, 1, 2, 4))):
            self.number += 1
            values = self.some_values(topic.partitions[index], self.name, self.number)
            batch = batch_of(values, self.town.world.now_ms())
            data += link.frame(produce_request(topic.name, index, batch), 9)[0]
        nowhere = produce_request("nowhere", 0, batch_of([b"?"], 0), acks=0)
        rubbish = self.chance.choice(
            (
                struct.pack(">i", -7),
                b"GET / HTTP/1.1\r\n\r\n",
                frame_of(nowhere, PRODUCE_VERSION),
            )
        )
        link.send(data + rubbish, whole=self.chance.random() < 0.8)
        await self.pause(1, 30)
        self.disconnect()


class Admin(PlainProducer):
    """Makes topics, puts something into them, and deletes some of them again."""

    made = 0

    async def work(self) -> None:
        await self.pause(50, 400)
        self.made += 1
        topic = await self.create(
            f"{self.name}-{self.made}", self.chance.choice((1, 3))
        )
        if topic is None:
            return
        try:
            for _ in range(3):
                await self._fill(topic)
            await self.pause(10, 1_500)
        except Disconnected:
            self.disconnect()
        if self.chance.random() < 0.7:
            await self._delete(topic)

    async def create(self, name: str, partitions: int) -> TopicModel | None:
        """A topic, and what Metadata right behind says of it; None: refused."""
        topic = self.model.topic(name, partitions)
        asked = MetadataRequest([MetadataRequestTopic(name=name)], False)
        made, known = await self.ask_both(
            (CreateTopicsRequest([CreatableTopic(name, partitions, 1)], 5_000), 5),
            (asked, 9),
        )
        self.tell(f"create {name}: {made.topics[0].error_code}")
        if made.topics[0].error_code:
            return None
        topic.created = True
        if known.topics[0].error_code and self.town.in_order:
            raise Violation(f"{name} was created and is unknown right behind")
        return topic

    async def _fill(self, topic: TopicModel) -> None:
        index = self.chance.randrange(len(topic.partitions))
        part = topic.partitions[index]
        self.number += 1
        values = self.some_values(part, self.name, self.number)
        batch = batch_of(values, self.town.world.now_ms())
        answer = await self.ask(produce_request(topic.name, index, batch), 9)
        self.answered(part, values, answer.responses[0].partition_responses[0])

    async def _delete(self, topic: TopicModel) -> None:
        topic.delete_asked = True
        self.tell(f"deletes {topic.name}")
        asked = DeleteTopicsRequest([DeleteTopicState(topic.name)], [], 5_000)
        answer = await self.ask(asked, 6)
        code = answer.responses[0].error_code
        self.tell(f"delete {topic.name}: {code}")
        if not code:
            topic.deleted = True
        else:
            topic.delete_asked = False
