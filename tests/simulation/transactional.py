"""Producers of transactions, some of them two instances of one id, and who reads them.

A transaction is a few batches in some partitions, maybe offsets of a group, and an end;
at any point its producer may crash, which leaves it to its successor or its timeout. An
instance that is fenced comes again, and fences the other.
"""

from typing import Any

from broker.protocol.errors import ErrorCode
from broker.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from broker.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from broker.protocol.messages.end_txn import EndTxnRequest
from broker.protocol.messages.init_producer_id import InitProducerIdRequest
from broker.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from broker.records.layout import TRANSACTIONAL_BIT
from tests.simulation.actors import look_at_offset
from tests.simulation.clients import (
    Consumer,
    PlainProducer,
    Town,
    batch_of,
    produce_request,
)
from tests.simulation.model import PartitionModel, TopicModel
from tests.simulation.network import Disconnected, Link
from tests.simulation.transactions import TransactionModel

INIT_VERSION = 5
END_VERSIONS = {1: 3, 2: 5}
PRODUCE_VERSIONS = {1: 9, 2: 12}
OFFSETS_VERSIONS = {1: 3, 2: 5}
COMES_AGAIN = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)

Place = tuple[TopicModel, int]


class CommittedReader(Consumer):
    """Reads what is committed, and nothing else."""

    committed = True


class TransactionalProducer(PlainProducer):
    """One instance of the producer of a transactional id."""

    def __init__(
        self, town: Town, name: str, transactional_id: str, version: int
    ) -> None:
        super().__init__(town, name)
        self.id, self.version = transactional_id, version
        self.timeout_ms = self.chance.choice((700, 60_000, 60_000))
        self.producer: tuple[int, int] | None = None
        """Producer id and epoch; None: it is to begin."""
        self.before = (-1, -1)
        """Those that it had."""
        self.sequences: dict[str, int] = {}
        self.places: list[Place] = []
        """Where its transaction writes."""
        self.offset = 0

    async def work(self) -> None:
        if self.producer is None:
            await self._begin()
            return
        try:
            await self._transact()
        except Disconnected:
            self._crash()
            raise
        if self.chance.random() < 0.3:
            await self._look_at_offsets()

    async def finish(self) -> None:
        """End what it left open, under a new epoch."""
        self._crash()
        while self.producer is None:
            try:
                await self._begin()
            except Disconnected:
                self.disconnect()
            await self.pause(10, 200)

    def _crash(self) -> None:
        """Know nothing of what was under way."""
        self.before, self.producer = self.producer or self.before, None

    async def _begin(self) -> None:
        """Get an epoch: as a new instance, or as one that goes on (KIP-360)."""
        goes_on = not self.town.finishing and self.chance.random() < 0.3
        known = self.before if goes_on else (-1, -1)
        asked = InitProducerIdRequest(self.id, self.timeout_ms, *known)
        newest = self._newest
        answer = await self.ask(asked, INIT_VERSION)
        self.tell(f"begins {self.id} with {known}: {answer.error_code}")
        if answer.error_code:
            if answer.error_code not in COMES_AGAIN:
                self.before = (-1, -1)
            await self.pause(5, 100)
            return
        self.producer = answer.producer_id, answer.producer_epoch
        ids = self.model.ids
        ids.check(newest, self.producer, f"{self.name}: InitProducerId")
        ids.given(self.id, self.producer, self.name)
        self.sequences.clear()

    @property
    def _newest(self) -> tuple[int, int]:
        return self.model.ids.newest.get(self.id, (-1, -1))

    def _succeeded(self, newest: tuple[int, int], how: str) -> None:
        assert self.producer is not None
        self.model.ids.check(newest, self.producer, f"{self.name}: {how}")

    # a transaction

    async def _transact(self) -> None:
        transaction = TransactionModel(f"{self.name}'s {self.number + 1}")
        self.model.transactions.append(transaction)
        self.tell(f"{transaction.name} begins as {self.producer}")
        is_good = await self._write(transaction)
        if is_good and self.chance.random() < 0.5:
            is_good = await self._send_offsets(transaction)
        if self.chance.random() < 0.1:
            self._crash()
            return
        if self.chance.random() < 0.3:
            await self.pause(0, 900)
        commit = is_good and self.chance.random() < 0.7
        if is_good and self.chance.random() < 0.3:
            is_good = await self._race(transaction, commit)
        else:
            await self._end(transaction, commit)
        if not is_good:
            self._crash()  # its sequences are not known any more

    async def _race(self, transaction: TransactionModel, commit: bool) -> bool:
        """Its last batch and its end leave together, on two connections, of which
        either may be faster; whether the batch was taken."""
        link = await self.town.network.connect(f"{self.name}, data")
        try:
            last = self._send(transaction, self.places[0], link)
            await self._end(transaction, commit)
            return await self._hear(*last)
        finally:
            link.close()

    async def _write(self, transaction: TransactionModel) -> bool:
        """Batches in some partitions; whether all were taken."""
        all_there = [(t, i) for t in self.town.topics for i in range(len(t.partitions))]
        count = min(len(all_there), self.chance.choice((1, 2, 3)))
        self.places = self.chance.sample(all_there, count)
        if self.version == 1 and not await self._add(self.places):
            return False
        newest, link = self._newest, await self.link()
        places = self.places * self.chance.choice((1, 1, 2))
        sent = [self._send(transaction, place, link) for place in places]
        taken = [await self._hear(*one) for one in sent]
        if any(taken):
            self._succeeded(newest, "Produce")
        return all(taken)

    async def _hear(self, part: PartitionModel, values: list[bytes], to: Any) -> bool:
        """Whether a batch was taken."""
        response = await self.answer(to)
        answer = response.responses[0].partition_responses[0]
        self.answered(part, values, answer)
        return not answer.error_code

    async def _add(self, places: list[Place]) -> bool:
        topics = [AddPartitionsToTxnTopic(t.name, [i]) for t, i in places]
        assert self.producer is not None
        asked = AddPartitionsToTxnRequest([], self.id, *self.producer, topics)
        while True:
            newest = self._newest
            answer = await self.ask(asked, 3)
            results = [
                one.partition_error_code
                for topic in answer.results_by_topic_v3_and_below
                for one in topic.results_by_partition
            ]
            if not any(results):
                self._succeeded(newest, "AddPartitionsToTxn")
                return True
            if not any(code in COMES_AGAIN for code in results):
                return False
            await self.pause(5, 50)

    def _send(self, transaction: TransactionModel, place: Place, link: Link) -> Any:
        """A batch on its way: partition, values, the future of its answer."""
        topic, index = place
        part = topic.partitions[index]
        self.number += 1
        values = self.some_values(part, self.name, self.number)
        for value in values:
            part.transactions[value] = transaction
        sequence = self.sequences.get(part.name, 0)
        self.sequences[part.name] = sequence + len(values)
        assert self.producer is not None
        batch = batch_of(
            values,
            self.town.world.now_ms(),
            (*self.producer, sequence),
            TRANSACTIONAL_BIT,
        )
        request = produce_request(topic.name, index, batch)
        request.transactional_id = self.id
        return part, values, link.ask(request, PRODUCE_VERSIONS[self.version])

    # offsets

    async def _send_offsets(self, transaction: TransactionModel) -> bool:
        """An offset of a group becomes part of it; whether it was taken."""
        place = self.a_partition()
        assert place is not None
        assert self.producer is not None
        topic, index = place
        group = f"group-{self.name}"
        if self.version == 1:
            added = AddOffsetsToTxnRequest(self.id, *self.producer, group)
            if (await self.ask(added, 3)).error_code:
                return False
        self.offset += 1
        known = self.model.committed(group, topic.name, index)
        known.transactions[self.offset] = transaction
        parts = [TxnOffsetCommitRequestPartition(index, self.offset)]
        topics = [TxnOffsetCommitRequestTopic(topic.name, parts)]
        asked = TxnOffsetCommitRequest(self.id, group, *self.producer, topics=topics)
        newest = self._newest
        answer = await self.ask(asked, OFFSETS_VERSIONS[self.version])
        code = answer.topics[0].partitions[0].error_code
        self.tell(f"offset {self.offset} of {topic.name}-{index}: {code}")
        known.ask(self.offset)
        if code:
            return False
        self._succeeded(newest, "TxnOffsetCommit")
        transaction.offsets.append((known.acknowledge, self.offset))
        return True

    async def _look_at_offsets(self) -> None:
        place = self.a_partition()
        if place is not None:
            group = f"group-{self.name}"
            await look_at_offset(self, group, place[0].name, place[1])

    # its end

    async def _end(self, transaction: TransactionModel, commit: bool) -> None:
        """End it, asking again as long as nobody says how that went; or crash."""
        transaction.commit_asked = commit
        may_have_ended = False
        while self.producer is not None:
            newest = self._newest
            asked = EndTxnRequest(self.id, *self.producer, commit)
            try:
                answer = await self.ask(asked, END_VERSIONS[self.version])
            except Disconnected:
                may_have_ended = True
                self.disconnect()
                if self.chance.random() < 0.4:
                    self._crash()
                await self.pause(5, 200)
                continue
            code = answer.error_code
            self.tell(f"{transaction.name} ends, commit={commit}: {code}")
            if not code:
                self._succeeded(newest, "EndTxn")
                self._ended(transaction, commit, answer)
                return
            if code not in COMES_AGAIN:
                if not may_have_ended:
                    transaction.aborted(f"its end was refused with {code}")
                self._crash()
            may_have_ended |= code != ErrorCode.CONCURRENT_TRANSACTIONS
            await self.pause(5, 50)

    def _ended(self, transaction: TransactionModel, commit: bool, answer: Any) -> None:
        if commit:
            transaction.committed("acknowledged")
        else:
            transaction.aborted("acknowledged")
        transaction.acknowledge_offsets()
        if self.version == 2:
            self.producer = answer.producer_id, answer.producer_epoch
            self.model.ids.given(self.id, self.producer, self.name)
            self.sequences.clear()


class RelaxedProducer(TransactionalProducer):
    """In the relaxed mode (``wal.sync=interval``): what must outlive a power cut are
    the records of transactions whose commit was answered, and no others. Nor those
    that were taken before a cut, and committed behind it."""

    def __init__(
        self, town: Town, name: str, transactional_id: str, version: int
    ) -> None:
        super().__init__(town, name, transactional_id, version)
        self._taken: list[tuple[int, PartitionModel, int, bytes]] = []
        """How often the power had been cut, and what was acknowledged where."""

    async def _transact(self) -> None:
        self._taken.clear()
        await super()._transact()

    def answered(self, part: PartitionModel, values: list[bytes], answer: Any) -> None:
        if not answer.error_code:
            at, cuts = enumerate(values, answer.base_offset), self.town.cuts
            self._taken += [(cuts, part, offset, value) for offset, value in at]

    def _ended(self, transaction: TransactionModel, commit: bool, answer: Any) -> None:
        super()._ended(transaction, commit, answer)
        for cuts, part, offset, value in self._taken:
            if commit and cuts == self.town.cuts:
                self.model.acknowledged += 1
                part.note(offset, value, "committed")
