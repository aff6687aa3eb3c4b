"""A producer with a transactional id, over the real codecs of a `House`.

Each call asks one API in the version that is given, and returns its error code; what
the producer is told of ids and epochs it keeps, as clients do.
"""

from typing import Any

from broker.protocol.errors import ErrorCode
from broker.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from broker.protocol.messages.end_txn import EndTxnRequest
from broker.protocol.messages.init_producer_id import InitProducerIdRequest
from broker.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from broker.records.layout import TRANSACTIONAL_BIT
from tests.support.coordinating import FLIGHTS, House
from tests.support.rig import batch_of

TIMEOUT_MS = 60_000


class TransactionalClient:
    """One instance of a producer; another of the same id makes it a zombie."""

    def __init__(self, house: House, transactional_id: str = "x") -> None:
        self.house = house
        self.id = transactional_id
        self.producer_id, self.epoch = -1, -1

    async def init(
        self, version: int = 5, timeout_ms: int = TIMEOUT_MS, goes_on: bool = False
    ) -> ErrorCode:
        """Get an epoch; ``goes_on``: as who has one already."""
        known = (self.producer_id, self.epoch) if goes_on else (-1, -1)
        asked = InitProducerIdRequest(self.id, timeout_ms, *known)
        answer = await self.house.ask(asked, version)
        if not answer.error_code:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        return ErrorCode(answer.error_code)

    async def add(
        self,
        *partitions: int,
        version: int = 3,
        topic: str = FLIGHTS.name,
        verify_only: bool = False,
    ) -> dict[int, ErrorCode]:
        """The code of each partition."""
        topics = [AddPartitionsToTxnTopic(topic, list(partitions))]
        known = self.id, self.producer_id, self.epoch
        if version >= 4:
            one = AddPartitionsToTxnTransaction(*known, verify_only, topics)
            asked = AddPartitionsToTxnRequest([one])
        else:
            asked = AddPartitionsToTxnRequest([], *known, topics)
        answer = await self.house.ask(asked, version)
        results = answer.results_by_topic_v3_and_below
        if version >= 4:
            results = answer.results_by_transaction[0].topic_results
        return {
            one.partition_index: ErrorCode(one.partition_error_code)
            for topic in results
            for one in topic.results_by_partition
        }

    async def produce(
        self,
        *partitions: int,
        sequence: int = 0,
        version: int = 9,
        attributes: int = TRANSACTIONAL_BIT,
        **more: Any,
    ) -> list[Any]:
        """The answers of the partitions, each of which is sent one record."""
        name = {"transactional_id": self.id} | more
        producer = self.producer_id, self.epoch, sequence
        batch = batch_of(b"v", producer=producer, attributes=attributes)
        data = [PartitionProduceData(index, batch) for index in partitions]
        topic = TopicProduceData(FLIGHTS.name, partition_data=data)
        if version >= 13:
            topic = TopicProduceData("", FLIGHTS.id, data)
        request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic], **name)
        answer = await self.house.ask(request, version)
        return answer.responses[0].partition_responses

    async def written(self, *partitions: int, **more: Any) -> list[ErrorCode]:
        """As ``produce``, the codes alone."""
        answers = await self.produce(*partitions, **more)
        return [ErrorCode(one.error_code) for one in answers]

    async def end(self, commit: bool = True, version: int = 3) -> ErrorCode:
        asked = EndTxnRequest(self.id, self.producer_id, self.epoch, commit)
        answer = await self.house.ask(asked, version)
        if answer.producer_id >= 0:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        return ErrorCode(answer.error_code)

    def log(self, index: int = 0) -> Any:
        """The log of a partition that it writes to."""
        return self.house.broker.partitions.named(FLIGHTS.name, index).log
