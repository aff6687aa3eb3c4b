"""DeleteRecords: everything below an offset goes.

Behavior: the log start is durable in the catalog before the answer; -1 means up to the
high watermark; an offset already below the log start changes nothing. Of a partition
that is named twice the last offset counts; it is answered once. Files of the table that
lie wholly below are removed by a job.
Version notes: none that changes behavior.
"""

from collections import defaultdict
from collections.abc import Awaitable

from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.dispatch.turns import (
    COUNTED_A_TURN,
    ITEMS_A_TURN,
    Steps,
    in_turns,
    topics_are_few,
)
from broker.protocol.api_keys import ApiKey
from broker.protocol.errors import ErrorCode, KafkaError
from broker.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
    DeleteRecordsTopicResult,
)
from broker.runtime.partitions.partition import Partition
from broker.runtime.process.long_work import work_of_request
from broker.runtime.services import Broker

TO_HIGH_WATERMARK = -1
Offsets = defaultdict[str, dict[int, int]]
Moves = dict[Partition, int]
Results = list[tuple[Partition, DeleteRecordsPartitionResult]]


@serves(ApiKey.DELETE_RECORDS, versions=(0, 2))
def delete_records(
    request: DeleteRecordsRequest, context: Context
) -> DeleteRecordsResponse | Awaitable[DeleteRecordsResponse]:
    return in_turns(
        _delete(request, context.broker), at_once=topics_are_few(request.topics)
    )


def _delete(
    request: DeleteRecordsRequest, broker: Broker
) -> Steps[Awaitable[DeleteRecordsResponse]]:
    """Find out what is meant, and then delete that: who hangs up before has asked for
    nothing."""
    offsets = yield from _offsets(request.topics)
    answer = DeleteRecordsResponse()
    moves: Moves = {}
    moved: Results = []
    looked_at = 0
    for name in tuple(offsets):
        result = DeleteRecordsTopicResult(name=name)
        answer.topics.append(result)
        for index, offset in offsets.pop(name).items():
            one = DeleteRecordsPartitionResult(partition_index=index, low_watermark=-1)
            result.partitions.append(one)
            try:
                partition = broker.partitions.named(name, index)
                moves[partition] = _new_start(partition, offset)
                moved.append((partition, one))
            except KafkaError as error:
                one.error_code = error.code
            looked_at += 1
            if looked_at % ITEMS_A_TURN == 0:
                yield
    return _when_moved(moves, moved, answer, broker)


def _offsets(topics: list[DeleteRecordsTopic]) -> Steps[Offsets]:
    """Return those of each topic's partitions, and no topic that has none."""
    offsets: Offsets = defaultdict(dict)
    looked_at = 0
    for topic in topics:
        for asked in (None, *topic.partitions):
            if asked is not None:
                offsets[topic.name][asked.partition_index] = asked.offset
            looked_at += 1
            if looked_at % COUNTED_A_TURN == 0:
                yield
    return offsets


async def _when_moved(
    moves: Moves, moved: Results, answer: DeleteRecordsResponse, broker: Broker
) -> DeleteRecordsResponse:
    try:
        await broker.partitions.raise_log_starts(moves)
    except KafkaError as error:
        for _, one in moved:
            one.error_code = error.code
        return answer
    long_work = work_of_request()
    for count, (partition, one) in enumerate(moved, 1):
        one.low_watermark = partition.log_start
        if count % ITEMS_A_TURN == 0:
            await long_work.others_first()
    return answer


def _new_start(partition: Partition, offset: int) -> int:
    partition.check_stored()
    if partition.config.compacted and not partition.config.deleted:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            "Records of a compacted topic are not deleted by offset.",
        )
    if offset == TO_HIGH_WATERMARK:
        return partition.high_watermark
    if not 0 <= offset <= partition.high_watermark:
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"Cannot increment the log start offset to {offset} beyond the high "
            f"watermark {partition.high_watermark}",
        )
    return offset
