"""TxnOffsetCommit: offsets of a group, within a producer's transaction.

Behavior: answered when they are durable. Nobody is given them until the transaction
ends (`broker/groups/commits.py`). The transaction must be open and have the group
(AddOffsetsToTxn), and the member be one of the group in its generation; asked in this
order, and of all partitions that exist or none. A producer that says nothing of members
(before KIP-447) may commit whatever state the group is in.
Version notes: v2 leader epoch (KIP-320); v3 flexible, generation and member; v4
TRANSACTION_ABORTABLE, which is INVALID_TXN_STATE before (KIP-890); v5 the group joins
the transaction by itself, once `transaction.version` 2 is announced. No version says
PRODUCER_FENCED: it is INVALID_PRODUCER_EPOCH.
"""

from collections.abc import Awaitable

from broker.apis._transactions import NEVER, known_since
from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.dispatch.turns import ITEMS_A_TURN, Steps, in_turns, topics_are_few
from broker.groups.offsets import NO_EXPIRY, Committed
from broker.ids import ProducerId, TopicPartition
from broker.protocol.api_keys import ApiKey
from broker.protocol.errors import ErrorCode, KafkaError
from broker.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from broker.transactions.commands import Add, Refused
from broker.transactions.metadata import V2

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
_ADDS_SINCE = 5
_Offsets = dict[TopicPartition, Committed]


@serves(ApiKey.TXN_OFFSET_COMMIT, versions=(0, 5))
def txn_offset_commit(
    request: TxnOffsetCommitRequest, context: Context
) -> TxnOffsetCommitResponse | Awaitable[TxnOffsetCommitResponse]:
    return in_turns(_look(request, context), at_once=topics_are_few(request.topics))


def _look(
    request: TxnOffsetCommitRequest, context: Context
) -> Steps[TxnOffsetCommitResponse | Awaitable[TxnOffsetCommitResponse]]:
    """Find out what of it can be committed at all; then commit that."""
    offsets: _Offsets = {}
    response, looked_at, is_known = TxnOffsetCommitResponse(), 0, False
    now_ms = context.broker.clock.now_ms()
    for asked in request.topics:
        answers: list[TxnOffsetCommitResponsePartition] = []
        response.topics.append(TxnOffsetCommitResponseTopic(asked.name, answers))
        topic = context.broker.topics.get(asked.name)
        for one in (None, *asked.partitions):
            looked_at += 1
            if looked_at % ITEMS_A_TURN == 0:
                yield
            if one is None:
                continue
            index, code = one.partition_index, UNKNOWN
            if topic is not None and 0 <= index < topic.partitions:
                is_known, code = True, _refusal_of(one, context)
                if not code:
                    offsets[topic.key(index)] = _committed(one, now_ms)
            answers.append(TxnOffsetCommitResponsePartition(index, code))
    return _commit(request, context, offsets, response) if is_known else response


def _refusal_of(one: TxnOffsetCommitRequestPartition, context: Context) -> ErrorCode:
    longest: int = context.broker.groups.limits.offset_metadata_max
    is_too_long = len(one.committed_metadata or "") > longest
    return ErrorCode.OFFSET_METADATA_TOO_LARGE if is_too_long else ErrorCode.NONE


def _committed(one: TxnOffsetCommitRequestPartition, now_ms: int) -> Committed:
    return Committed(
        one.committed_offset,
        one.committed_leader_epoch,
        one.committed_metadata or "",
        now_ms,
        NO_EXPIRY,
    )


async def _commit(
    request: TxnOffsetCommitRequest,
    context: Context,
    offsets: _Offsets,
    response: TxnOffsetCommitResponse,
) -> TxnOffsetCommitResponse:
    code = _mistake(request) or await _join(request, context)
    # No await from here on: an end that is decided later finds the offsets pending.
    code = code or _verify(request, context) or _admit(request, context)
    if code:
        return _refused(response, code)
    group_id, producer_id = request.group_id, ProducerId(request.producer_id)
    try:
        await context.broker.groups.commit_pending(group_id, producer_id, offsets)
    except KafkaError as error:
        return _refused(response, error.code)
    return response


def _mistake(request: TxnOffsetCommitRequest) -> ErrorCode:
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if not request.transactional_id:
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE


async def _join(request: TxnOffsetCommitRequest, context: Context) -> ErrorCode:
    """Make the group part of the transaction, where nobody asks for it before."""
    transactions = context.broker.transactions
    if context.version < _ADDS_SINCE or transactions.limits.version < V2:
        return ErrorCode.NONE
    command = Add(
        ProducerId(request.producer_id),
        request.producer_epoch,
        groups=frozenset({request.group_id}),
        version=V2,
    )
    reply = await transactions.add(request.transactional_id, command)
    code = reply.code if isinstance(reply, Refused) else ErrorCode.NONE
    return known_since(code, context.version, fenced=NEVER, abortable=4)


def _verify(request: TxnOffsetCommitRequest, context: Context) -> ErrorCode:
    """Whether the transaction is open, this producer's, and has the group."""
    code = context.broker.transactions.verify(
        request.transactional_id,
        ProducerId(request.producer_id),
        request.producer_epoch,
        request.group_id,
    )
    return known_since(code, context.version, fenced=NEVER, abortable=4)


def _admit(request: TxnOffsetCommitRequest, context: Context) -> ErrorCode:
    """Whether the member may commit; in the words that all versions know."""
    code = context.broker.groups.admit_commit(
        request.group_id,
        request.member_id,
        request.group_instance_id,
        request.generation_id,
        in_transaction=True,
    )
    is_gone = code is ErrorCode.GROUP_ID_NOT_FOUND
    return ErrorCode.ILLEGAL_GENERATION if is_gone else code


def _refused(
    response: TxnOffsetCommitResponse, code: ErrorCode
) -> TxnOffsetCommitResponse:
    """The response, with this code for all partitions that exist."""
    for topic in response.topics:
        for partition in topic.partitions:
            if partition.error_code != UNKNOWN:
                partition.error_code = code
    return response
