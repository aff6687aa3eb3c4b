"""The transaction that a Produce names: which of its batches may be written now.

The problem. A batch that comes to lie in a partition whose transaction has ended, or
never had it, is read by nobody for ever: what is behind it never becomes stable. The
idea (KIP-890): the coordinator is asked for every transactional batch, on the loop, at
the moment at which it is appended. Since it decides there too, no answer is too old.

From version 12 on a producer adds no partitions itself. What the transaction lacks is
added, durably, before anything of the request is appended.

Source: Kafka's ``ReplicaManager.handleProduceAppend``, ``AddPartitionsToTxnManager``.
"""

from collections.abc import Iterator
from typing import Final

from broker.apis._produce_again import partition_of
from broker.apis._transactions import NEVER, known_since
from broker.dispatch.context import Context
from broker.dispatch.turns import ITEMS_A_TURN, Steps
from broker.ids import ProducerId, TopicPartition
from broker.protocol.buffers import Buffer
from broker.protocol.errors import ErrorCode, KafkaError, NotAppended
from broker.protocol.messages.produce import ProduceRequest
from broker.records.batch import BatchHeader, read_header
from broker.records.layout import (
    ATTRIBUTES_AT,
    HEADER_BYTES,
    MAGIC,
    MAGIC_AT,
    TRANSACTIONAL_BIT,
)
from broker.runtime.partitions.partition import Partition
from broker.transactions.commands import Add, Added
from broker.transactions.metadata import V2

ABORTABLE_SINCE: Final = 11
ADDS_SINCE: Final = 12

_NOT_ADDED: Final = "Partition was not added to the transaction"

_ASKS_AGAIN: Final = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
)

_OF_THE_PRODUCER: Final = (ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE)
"""It is the id's producer that writes, be its partition part of the transaction or
not."""

Producer = tuple[ProducerId, int]
"""Producer id and epoch."""


class ProducedTransaction:
    """The transactional id of one request, and what its batches may do."""

    __slots__ = ("_coordinator", "_id", "_lacking", "_partitions", "_refused", "adds",
                 "version")  # fmt: skip

    def __init__(self, transactional_id: str, context: Context) -> None:
        self._id = transactional_id
        self.version = context.version
        self.adds: Final = context.version >= ADDS_SINCE
        """Whether a batch makes its partition part of the transaction."""
        self._coordinator = context.broker.transactions
        self._partitions = context.broker.partitions
        self._lacking: dict[Producer, set[TopicPartition]] = {}
        self._refused: dict[Producer, ErrorCode] = {}

    @classmethod
    def of(
        cls, request: ProduceRequest, context: Context
    ) -> "ProducedTransaction | None":
        """The one that a request names; None: it names none."""
        if request.transactional_id is None:
            return None
        return cls(request.transactional_id, context)

    def lacks(self, request: ProduceRequest) -> Steps[bool]:
        """Whether a batch is for a partition that has to be added first."""
        if self.adds:
            for count, (producer, key) in enumerate(self._written(request), 1):
                code = self._coordinator.verify(self._id, *producer, key)
                if code is ErrorCode.TRANSACTION_ABORTABLE:
                    self._lacking.setdefault(producer, set()).add(key)
                if count % ITEMS_A_TURN == 0:
                    yield
        return bool(self._lacking)

    async def add_lacking(self) -> None:
        """Add what is lacking; a refusal is that of its batches."""
        for producer, keys in self._lacking.items():
            command = Add(*producer, frozenset(keys), version=V2)
            reply = await self._coordinator.add(self._id, command)
            if not isinstance(reply, Added):
                self._refused[producer] = reply.code

    def verify(self, partition: Partition, records: Buffer | None) -> bool:
        """Whether this is a batch of the transaction, which may be appended now; False:
        it is of none.

        Raises KafkaError: it may not, in words that the version knows.
        """
        header = _header_of(records)
        if header is None:
            return False
        producer = header.producer_id, header.producer_epoch
        code = self._coordinator.verify(self._id, *producer, partition.key)
        if not self.adds and code in _OF_THE_PRODUCER:
            partition.log.producers.note_attempt(header)
        if code is ErrorCode.TRANSACTION_ABORTABLE:
            code = self._refused.get(producer, code)
        if code is not ErrorCode.NONE:
            raise self._refusal(code)
        return True

    def _written(
        self, request: ProduceRequest
    ) -> Iterator[tuple[Producer, TopicPartition]]:
        """Where there is a batch of a transaction, and whose."""
        for data in request.topic_data:
            for one in data.partition_data:
                header = _header_of(one.records)
                if header is None:
                    continue
                try:
                    partition = partition_of(
                        data, one.index, self.version, self._partitions
                    )
                except KafkaError:
                    continue  # it is refused when it is to be appended
                yield (header.producer_id, header.producer_epoch), partition.key

    def _refusal(self, code: ErrorCode) -> KafkaError:
        is_between = code is ErrorCode.CONCURRENT_TRANSACTIONS and not self.adds
        if is_between or code in _ASKS_AGAIN:
            # what producers of all versions ask again for, as Kafka says it
            return NotAppended(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                "Unable to verify the partition has been added to the transaction. "
                f"Underlying error: {code.name}",
            )
        known = known_since(code, self.version, fenced=NEVER, abortable=ABORTABLE_SINCE)
        is_missing = known is ErrorCode.INVALID_TXN_STATE
        return NotAppended(known, _NOT_ADDED if is_missing else "")


def _header_of(records: Buffer | None) -> BatchHeader | None:
    """That of a batch of a transaction; None: it is of none."""
    if records is None or len(records) < HEADER_BYTES or records[MAGIC_AT] != MAGIC:
        return None
    if not records[ATTRIBUTES_AT + 1] & TRANSACTIONAL_BIT:
        return None
    return read_header(records)
