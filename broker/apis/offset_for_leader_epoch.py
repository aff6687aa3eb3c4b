"""OffsetForLeaderEpoch: where a leader epoch ended, for clients that fear truncation.

Behavior: the leader epoch is 0 for ever and nothing visible is ever cut off, so the
answer is (0, high watermark): never below what a consumer was allowed to read.
Version notes: v2 fences the client's own epoch; v3 names the replica; v4 flexible.
"""

from collections.abc import Awaitable

from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.dispatch.turns import ITEMS_A_TURN, Steps, in_turns
from broker.protocol.api_keys import ApiKey
from broker.protocol.errors import KafkaError
from broker.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from broker.runtime.partitions.partition import LEADER_EPOCH, check_leader_epoch
from broker.runtime.services import Broker


@serves(ApiKey.OFFSET_FOR_LEADER_EPOCH, versions=(0, 4))
def offset_for_leader_epoch(
    request: OffsetForLeaderEpochRequest, context: Context
) -> OffsetForLeaderEpochResponse | Awaitable[OffsetForLeaderEpochResponse]:
    return in_turns(_ends(request, context.broker))


def _ends(
    request: OffsetForLeaderEpochRequest, broker: Broker
) -> Steps[OffsetForLeaderEpochResponse]:
    response, looked_at = OffsetForLeaderEpochResponse(), 0
    for topic in request.topics:
        ends: list[EpochEndOffset] = []
        response.topics.append(OffsetForLeaderTopicResult(topic.topic, ends))
        for asked in topic.partitions:
            ends.append(_end(topic.topic, asked, broker))
            looked_at += 1
            if looked_at % ITEMS_A_TURN == 0:
                yield
    return response


def _end(name: str, asked: OffsetForLeaderPartition, broker: Broker) -> EpochEndOffset:
    end = EpochEndOffset(partition=asked.partition)
    try:
        partition = broker.partitions.named(name, asked.partition)
        check_leader_epoch(asked.current_leader_epoch)
    except KafkaError as error:
        end.error_code = error.code
        return end
    if asked.leader_epoch == LEADER_EPOCH:
        end.leader_epoch, end.end_offset = LEADER_EPOCH, partition.high_watermark
    # any other epoch never was: undefined, (-1, -1), as LeaderEpochFileCache answers
    return end
