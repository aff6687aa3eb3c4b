"""Produce: batches into partitions, in the order in which they come.

Behavior: every partition entry is checked, gets its offset and goes to the write-ahead
log before this returns, so those of a connection are pipelined; the answer follows when
all of them are durable (acks 1 and -1 alike) or refused. acks 0 is never answered, but
keeps its place in the line until it is on disk, so that a producer cannot outrun the
disk; if it was refused the connection closes, as Kafka's does, so that the client looks
for the reason. A partition that is named twice takes both batches and answers both;
Kafka drops all but the last in silence, and no client sends that.
A batch of a transaction is taken only if its partition is part of that at the moment of
appending: none comes to lie behind the marker (``_produce_transactional``).
A topic whose ``compression.type`` is not ``producer`` keeps its batches in that codec:
what comes in another is compressed anew on a thread (``_recompressed``).
Version notes: v0 to v2 carry message sets (magic 0, and 1 since v2), which become one
batch each on a thread, one after another, and a connection's next request waits until
all have their place; v2 the broker's timestamp; v3 batches; v4 KAFKA_STORAGE_ERROR;
v5 the log start; v8 messages and the records at fault (KIP-467); v11
TRANSACTION_ABORTABLE; v12 makes its partitions part of the transaction (KIP-890), and
the connection's next request waits while that goes to disk; v13 topics by id (KIP-516).
Topics are not created here.
"""

from collections.abc import Awaitable, Callable, Iterator

from broker.apis._message_sets import converted
from broker.apis._produce_again import partition_of, repeat
from broker.apis._produce_refused import BATCHES_SINCE, refuse
from broker.apis._produce_transactional import ProducedTransaction
from broker.apis._recompressed import (
    NO_ACKS,
    Kept,
    as_kept,
    is_wanted,
    waits_until_s,
)
from broker.dispatch.context import Context
from broker.dispatch.encoded import Wide
from broker.dispatch.pending import Pending
from broker.dispatch.registry import serves
from broker.dispatch.turns import Steps
from broker.protocol.api_keys import ApiKey
from broker.protocol.errors import ErrorCode, KafkaError, ProtocolError
from broker.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from broker.records.limits import RECORD_ERRORS_MAX
from broker.runtime.partitions.overdue import NO_TIMEOUT
from broker.runtime.partitions.partition import Partition, Reply, bare
from broker.runtime.partitions.reads import to_its_end
from broker.runtime.process.long_work import work_of_request

ACKS = (-1, NO_ACKS, 1)
APPENDED_A_TURN = 200
"""Some ten microseconds each, where a partition is used for the first time."""

Given = ProduceResponse | Wide
"""What is answered; in turns if it is long."""

Entry = tuple[TopicProduceData, PartitionProduceData, PartitionProduceResponse]
"""A partition of a request: its topic, itself, its part of the response."""


class Answer(Pending[Given | None]):
    """A response that is filled from several sides; complete when nothing is open."""

    __slots__ = (
        "acks", "asked", "counters", "errors_left", "is_wide", "open", "refused",
        "response", "transaction", "version", "waits_until_s",
    )  # fmt: skip

    def __init__(
        self, request: ProduceRequest, context: Context, *, is_wide: bool = False
    ) -> None:
        super().__init__()
        self.version = context.version
        self.counters = context.broker.counters
        self.acks = request.acks
        self.transaction = ProducedTransaction.of(request, context)
        """That of the request, if it names one."""
        self.response = ProduceResponse()
        self.is_wide = is_wide
        self.open = 0
        self.refused: KafkaError | None = None
        self.errors_left = RECORD_ERRORS_MAX
        """So many records at fault may still be named."""
        self.asked = False
        """Whether each of its partitions has been asked."""
        self.waits_until_s: float | None = None
        """See `waits_until_s`."""

    def entries(self, request: ProduceRequest) -> Iterator[Entry | None]:
        """Each partition of the request, and its part of the response; None for a
        topic without any, which takes time and, as in Kafka, is not in the answer."""
        for data in request.topic_data:
            if not data.partition_data:
                yield None
                continue
            parts: list[PartitionProduceResponse] = []
            self.response.responses.append(
                TopicProduceResponse(data.name, data.topic_id, parts)
            )
            for one in data.partition_data:
                parts.append(PartitionProduceResponse(one.index))
                yield data, one, parts[-1]

    def reply_to(
        self,
        answer: PartitionProduceResponse,
        partition: Partition,
        release: Callable[[], None] | None = None,
    ) -> Reply:
        """Notified of what became of one batch; ``release`` is called then."""
        self.open += 1

        def reply(base_offset: int, stamp_ms: int, error: KafkaError | None) -> None:
            if release is not None:
                release()
            if error is None:
                answer.base_offset = base_offset
                answer.log_append_time_ms = stamp_ms
                answer.log_start_offset = partition.log.offsets.start
            else:
                self.refuse(answer, error, partition.log.offsets.start)
            self.open -= 1
            if self.open == 0 and self.asked:
                self.finish()

        return reply

    def refuse(
        self, answer: PartitionProduceResponse, error: KafkaError, log_start: int = -1
    ) -> None:
        self.refused = error
        self.counters.produce_errors += 1
        refuse(answer, error, self.version, log_start, self.errors_left)
        self.errors_left -= len(answer.record_errors)

    def finish(self) -> None:
        if self.acks != NO_ACKS:
            self.set_result(self.given)
        elif self.refused is None:
            self.set_result(None)
        else:
            self.set_exception(self.unanswered())

    @property
    def given(self) -> Given:
        """The response, as it is to be encoded."""
        return Wide(self.response) if self.is_wide else self.response

    def unanswered(self) -> ProtocolError:
        return ProtocolError(f"a produce with acks=0 was refused: {self.refused}")


def produce_in_turns(
    request: ProduceRequest, context: Context
) -> Steps[Given | Awaitable[Given | None] | None]:
    """The same for many partitions; the caller lets nothing overtake it."""
    answer = Answer(request, context, is_wide=True)
    if request.acks not in ACKS:
        response = yield from _refuse_acks(request, answer)
        return Wide(response)
    if context.version < BATCHES_SINCE:
        return _convert_and_append(request, context, answer)
    transaction = answer.transaction
    adds = transaction is not None and (yield from transaction.lacks(request))
    if adds or (yield from is_wanted(request, context)):
        return _prepare_and_append(request, context, answer, adds=adds)
    now_ms = context.broker.clock.now_ms()
    for count, entry in enumerate(answer.entries(request), 1):
        if entry is not None:
            data, one, to = entry
            kept = Kept(one.records, answer.version)
            _append_one(data, kept, to, request, context, answer, now_ms)
        if count % APPENDED_A_TURN == 0:
            yield
    return _asked(answer)


@serves(
    ApiKey.PRODUCE,
    versions=(0, 13),
    pipelined=True,
    pipelined_since=BATCHES_SINCE,
    repeat=repeat,
    in_turns=produce_in_turns,
)
def produce(
    request: ProduceRequest, context: Context
) -> Given | Awaitable[Given | None] | None:
    answer = Answer(request, context)
    if request.acks not in ACKS:
        return to_its_end(_refuse_acks(request, answer))
    if context.version < BATCHES_SINCE:
        return _convert_and_append(request, context, answer)
    transaction = answer.transaction
    adds = transaction is not None and to_its_end(transaction.lacks(request))
    if adds or to_its_end(is_wanted(request, context)):
        return _prepare_and_append(request, context, answer, adds=adds)
    return _append(request, context, answer)


async def _prepare_and_append(
    request: ProduceRequest, context: Context, answer: Answer, *, adds: bool
) -> Given | None:
    """What the transaction lacks becomes part of it, durably, before anything is
    appended, and what a topic keeps in another codec is compressed anew; the
    connection's next request waits until all have their place."""
    answer.waits_until_s, long_work = waits_until_s(request), work_of_request()
    if adds:
        assert answer.transaction is not None
        await answer.transaction.add_lacking()
    for count, entry in enumerate(answer.entries(request), 1):
        if entry is not None:
            await _append_as_kept(entry, request, context, answer)
        if count % APPENDED_A_TURN == 0:
            await long_work.others_first()
    later = _asked(answer)
    return await later if isinstance(later, Answer) else later


async def _append_as_kept(
    entry: Entry, request: ProduceRequest, context: Context, answer: Answer
) -> None:
    data, one, to = entry
    version, broker = answer.version, context.broker
    kept = Kept(one.records, version)
    try:
        partition = partition_of(data, to.index, version, broker.partitions)
        partition.check_stored()
    except KafkaError:
        pass  # it is refused below
    else:
        until_s = answer.waits_until_s
        kept = await as_kept(one.records, partition, version, broker, until_s)
    now_ms = broker.clock.now_ms()
    _append_one(data, kept, to, request, context, answer, now_ms)


async def _convert_and_append(
    request: ProduceRequest, context: Context, answer: Answer
) -> Given | None:
    """Each set is appended, or refused, before the next is converted: what a few
    kilobytes became is never kept for the sake of its neighbours. What nobody takes is
    refused before."""
    answer.waits_until_s, long_work = waits_until_s(request), work_of_request()
    for count, entry in enumerate(answer.entries(request), 1):
        if entry is not None:
            await _convert_one(entry, request, context, answer)
        if count % APPENDED_A_TURN == 0:
            await long_work.others_first()
    later = _asked(answer)
    return await later if isinstance(later, Answer) else later


async def _convert_one(
    entry: Entry, request: ProduceRequest, context: Context, answer: Answer
) -> None:
    data, one, to = entry
    partitions = context.broker.partitions
    try:
        partition = partition_of(data, to.index, answer.version, partitions)
        partition.check_stored()
        records = await converted(one.records, partition, context.broker)
        kept = await as_kept(
            records, partition, answer.version, context.broker, answer.waits_until_s
        )
    except KafkaError as error:
        answer.refuse(to, bare(error))
    else:
        now_ms = context.broker.clock.now_ms()
        _append_one(data, kept, to, request, context, answer, now_ms)


def _append(
    request: ProduceRequest, context: Context, answer: Answer
) -> Given | Answer | None:
    now_ms = context.broker.clock.now_ms()
    for entry in answer.entries(request):
        if entry is not None:
            data, one, to = entry
            kept = Kept(one.records, answer.version)
            _append_one(data, kept, to, request, context, answer, now_ms)
    return _asked(answer)


def _append_one(
    data: TopicProduceData,
    kept: Kept,
    to: PartitionProduceResponse,
    request: ProduceRequest,
    context: Context,
    answer: Answer,
    now_ms: int,
) -> None:
    records, version, release, refused = kept
    transaction = answer.transaction
    try:
        partition = partition_of(
            data, to.index, answer.version, context.broker.partitions
        )
        in_transaction = transaction is not None and transaction.verify(
            partition, records
        )
        if refused is not None:
            raise refused
    except KafkaError as error:
        if release is not None:
            release()
        answer.refuse(to, bare(error))
        return
    partition.append(
        records,
        version,
        now_ms,
        answer.reply_to(to, partition, release),
        # who asks for no answer is held back until it is on disk, however long
        NO_TIMEOUT if request.acks == NO_ACKS else request.timeout_ms,
        in_transaction=in_transaction,
        starts_at_zero=transaction is not None and transaction.adds,
    )


def _asked(answer: Answer) -> Given | Answer | None:
    """What is answered now that each partition has been asked."""
    if answer.acks == NO_ACKS and answer.refused is not None:
        raise answer.unanswered()
    if answer.open == 0:
        return None if answer.acks == NO_ACKS else answer.given
    answer.asked = True
    return answer


def _refuse_acks(request: ProduceRequest, answer: Answer) -> Steps[ProduceResponse]:
    error = KafkaError(
        ErrorCode.INVALID_REQUIRED_ACKS, f"acks is {request.acks}, not -1, 0 or 1"
    )
    for count, entry in enumerate(answer.entries(request), 1):
        if entry is not None:
            answer.refuse(entry[2], error)
        if count % APPENDED_A_TURN == 0:
            yield
    return answer.response
