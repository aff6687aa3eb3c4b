"""WriteTxnMarkers: a transaction ends in some partitions, whoever coordinates it.

Behavior: each partition gets the marker, be a transaction open there or not, and is
answered when that is durable. Only an operator asks for it here, to end a transaction
that hangs (`kafka-transactions abort`, KIP-664): the coordinator is in this process.
INVALID_PRODUCER_EPOCH if a newer epoch has written; any coordinator's epoch is taken,
so that nobody can shut out our own. Refused for Kafka's own topics, which hold nothing.
A partition that a marker names again is answered once (Kafka never answers then).
What has not begun when the connection is lost is not written: it might end what was
begun after.
Version notes: v1 flexible; v2 the version of the transaction (KIP-1228): from 2 on the
marker's epoch must be higher than that of an open transaction.
"""

import asyncio
from collections.abc import Awaitable, Iterator

from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.dispatch.turns import WhileHeard
from broker.ids import ProducerId
from broker.protocol.api_keys import ApiKey
from broker.protocol.errors import ErrorCode, KafkaError, storage_error_since
from broker.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from broker.records.markers import Marker
from broker.runtime.process.long_work import work_of_request
from broker.runtime.services import Broker
from broker.transactions.metadata import V2

MARKERS_A_TURN = 100
"""So many are on their way at once, of a request."""

_STORAGE_ERROR_SINCE = 1

_Result = WritableTxnMarkerPartitionResult
_Places = dict[int, tuple[list[WritableTxnMarkerTopicResult], dict[str, list[_Result]]]]
"""Of each producer: its topics in the response, and by name their partitions."""


@serves(ApiKey.WRITE_TXN_MARKERS, versions=(0, 2))
def write_txn_markers(
    request: WriteTxnMarkersRequest, context: Context
) -> Awaitable[WriteTxnMarkersResponse]:
    return WhileHeard(_write(request, context))


async def _write(
    request: WriteTxnMarkersRequest, context: Context
) -> WriteTxnMarkersResponse:
    response, long_work = WriteTxnMarkersResponse(), work_of_request()
    under_way: list[tuple[_Result, asyncio.Future[ErrorCode]]] = []
    for count, part in enumerate(_parts(request, response), 1):
        if part is not None:
            marker, name, result = part
            done = _append(marker, name, result.partition_index, context.broker)
            under_way.append((result, done))
        if count % MARKERS_A_TURN == 0:
            await _complete(under_way, context)
            await long_work.others_first()
    await _complete(under_way, context)
    return response


def _parts(
    request: WriteTxnMarkersRequest, response: WriteTxnMarkersResponse
) -> Iterator[tuple[WritableTxnMarker, str, _Result] | None]:
    """Each partition of each marker with its place in the response; None for what only
    takes time."""
    places: _Places = {}
    for marker in request.markers:
        named: set[tuple[str, int]] = set()
        yield None
        for topic in marker.topics:
            yield None
            for index in topic.partition_indexes:
                if (topic.name, index) in named:
                    yield None
                    continue
                named.add((topic.name, index))
                result = _Result(index)
                _place(response, places, marker.producer_id, topic.name).append(result)
                yield marker, topic.name, result


def _place(
    response: WriteTxnMarkersResponse, places: _Places, producer_id: int, name: str
) -> list[_Result]:
    """Where the partitions of a producer and a topic are answered: as in Kafka once,
    however many markers there are, and nowhere if there are none."""
    if producer_id not in places:
        marker = WritableTxnMarkerResult(producer_id, [])
        response.markers.append(marker)
        places[producer_id] = marker.topics, {}
    topics, by_name = places[producer_id]
    if name not in by_name:
        topics.append(WritableTxnMarkerTopicResult(name, []))
        by_name[name] = topics[-1].partitions
    return by_name[name]


def _append(
    marker: WritableTxnMarker, name: str, index: int, broker: Broker
) -> "asyncio.Future[ErrorCode]":
    """The code that the partition answers, once the marker is durable or refused."""
    done: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()

    def reply(_base: int, _stamp: int, error: KafkaError | None) -> None:
        if not done.done():
            done.set_result(ErrorCode.NONE if error is None else error.code)

    try:
        _check(marker)
        partition = broker.partitions.named(name, index)
        partition.check_stored()
    except KafkaError as error:
        reply(-1, -1, error)
        return done
    partition.append_marker(
        ProducerId(marker.producer_id),
        marker.producer_epoch,
        Marker(marker.transaction_result, max(marker.coordinator_epoch, -1)),
        broker.clock.now_ms(),
        reply,
        bumps=marker.transaction_version >= V2,
    )
    return done


def _check(marker: WritableTxnMarker) -> None:
    """Raises UNKNOWN_SERVER_ERROR, as Kafka does when it trips over such a one."""
    numbers = (marker.producer_id, marker.producer_epoch, marker.transaction_version)
    if min(numbers) < 0:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "no producer has these")


async def _complete(
    under_way: "list[tuple[_Result, asyncio.Future[ErrorCode]]]", context: Context
) -> None:
    """Wait for those that are on their way, and answer them."""
    for result, done in under_way:
        code = await done
        result.error_code = storage_error_since(
            _STORAGE_ERROR_SINCE, code, context.version
        )
    under_way.clear()
