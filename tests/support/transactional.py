"""Transactions of a producer, by the coordinator alone: without the APIs that tell it.

For tests of one API that need a transaction which others would have begun.
"""

import asyncio
from dataclasses import dataclass

from broker.ids import TopicPartition
from broker.runtime.services import Broker
from broker.transactions.commands import (
    Add,
    Added,
    End,
    Ended,
    Initialized,
    InitProducer,
    Refused,
)
from broker.transactions.metadata import V1

TIMEOUT_MS = 60_000


@dataclass(slots=True)
class Transactional:
    """A producer that has an epoch of its transactional id."""

    broker: Broker
    transactional_id: str
    producer_id: int
    producer_epoch: int

    @classmethod
    async def begun(
        cls, broker: Broker, transactional_id: str = "x", timeout_ms: int = TIMEOUT_MS
    ) -> "Transactional":
        """A producer with the next epoch; all before are fenced."""
        new_id = await broker.producer_ids.next()
        command = InitProducer(timeout_ms, new_producer_id=new_id)
        given = await broker.transactions.init_producer(transactional_id, command)
        assert isinstance(given, Initialized), given
        return cls(broker, transactional_id, given.producer_id, given.producer_epoch)

    async def add(self, *parts: TopicPartition | str, version: int = V1) -> None:
        """Partitions, and groups by their ids, are part of the transaction."""
        groups = frozenset(part for part in parts if isinstance(part, str))
        command = Add(
            self.producer_id,
            self.producer_epoch,
            frozenset(part for part in parts if not isinstance(part, str)),
            groups,
            version,
        )
        added = await self.broker.transactions.add(self.transactional_id, command)
        assert added == Added(), added

    def begin_end(
        self, commit: bool, version: int = V1
    ) -> "asyncio.Future[Ended | Refused]":
        """The transaction is to end from now on, and is not over yet."""
        command = End(self.producer_id, self.producer_epoch, commit, version)
        return self.broker.transactions.end(self.transactional_id, command)

    async def end(self, commit: bool, version: int = V1) -> None:
        """The transaction is over, markers and all."""
        ended = await self.begin_end(commit, version)
        assert isinstance(ended, Ended), ended
        if version > V1:
            self.producer_id = ended.producer_id
            self.producer_epoch = ended.producer_epoch
