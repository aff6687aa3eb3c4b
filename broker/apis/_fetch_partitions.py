"""A partition of a fetch: where it is read, and what the answer says of it.

Shared by fetches with a session and without. Version notes: v12 the epoch fetched last;
v13 topics by id (KIP-516); v16 who leads, where NOT_LEADER_OR_FOLLOWER is said
(KIP-951); Kafka 4.3.1 adds no endpoints to it, and one node needs none.
"""

from typing import Final, Protocol

from broker.apis._message_sets import AT_LEAST_ONE_SINCE, known_code
from broker.protocol.errors import ErrorCode, KafkaError, storage_error_since
from broker.protocol.messages.fetch import (
    AbortedTransaction,
    FetchPartition,
    FetchRequest,
    LeaderIdAndEpoch,
    PartitionData,
)
from broker.runtime.partitions.fetches import check_offset
from broker.runtime.partitions.partition import (
    LEADER_EPOCH,
    NO_LEADER_EPOCH,
    Partition,
    bare,
    check_leader_epoch,
)
from broker.runtime.partitions.reads import Place
from broker.runtime.services import Broker

BATCHES_SINCE: Final = 4
STORAGE_ERROR_SINCE: Final = 6
BY_ID_SINCE: Final = 13
REPLICA_STATE_SINCE: Final = 15
LEADER_SINCE: Final = 16
READ_COMMITTED: Final = 1


class Named(Protocol):
    """A topic as a request names it: by name, or by id."""

    topic: str
    topic_id: bytes


def replica_id_of(request: FetchRequest, version: int) -> int:
    """Who asks; -1: a consumer."""
    if version < REPLICA_STATE_SINCE:
        return request.replica_id
    return -1 if request.replica_state is None else request.replica_state.replica_id


def find_place(
    place: Place,
    topic: Named,
    asked: FetchPartition,
    replica_id: int,
    version: int,
    broker: Broker,
) -> None:
    """Give the place its partition, or its error."""
    place.at_least_one = version < AT_LEAST_ONE_SINCE  # it is cut to the limit after
    try:
        if version >= BY_ID_SINCE:
            found = broker.partitions.identified(topic.topic_id, asked.partition)
        else:
            found = broker.partitions.named(topic.topic, asked.partition)
        place.partition = found
        check_leader_epoch(max(asked.current_leader_epoch, NO_LEADER_EPOCH))
        _check_consumer(replica_id, asked)
        _check_last_fetched(asked)
        check_offset(found, asked.fetch_offset)
    except KafkaError as error:
        place.error = bare(error)


def _check_consumer(replica_id: int, asked: FetchPartition) -> None:
    """No replica follows this node (``Partition.followerReplicaOrThrow``)."""
    if replica_id < 0:
        return
    knows_epoch = asked.current_leader_epoch >= 0
    raise KafkaError(
        ErrorCode.UNKNOWN_LEADER_EPOCH
        if knows_epoch
        else ErrorCode.NOT_LEADER_OR_FOLLOWER,
        f"{replica_id} is none of the replicas",
    )


def _check_last_fetched(asked: FetchPartition) -> None:
    """An epoch that never was cannot have been fetched (``UnifiedLog.read``)."""
    if asked.last_fetched_epoch > LEADER_EPOCH:
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"epoch {asked.last_fetched_epoch} is unknown here",
        )


def aborted_of(place: Place, committed: bool) -> list[AbortedTransaction] | None:
    """What does not count of what was read, by first offset, for who reads what is
    committed; null for others and beside an error. Of what is not here nothing was
    aborted, whoever asks. All of it as Kafka says."""
    if place.partition is None:
        return []
    if not committed or place.error is not None:
        return None
    return [AbortedTransaction(*one) for one in place.aborted]


def count_fetched(place: Place) -> int:
    """The bytes that a place gives; its partition counts them."""
    size, partition = place.size, place.partition
    if partition is not None:
        partition.bytes_fetched += size
    return size


def data_of(index: int, place: Place, version: int, node_id: int) -> PartitionData:
    """A partition's part; with an error all its offsets are -1, as Kafka's."""
    data = PartitionData(index, high_watermark=-1, records=b"")
    if place.error is not None:
        code = data.error_code = _code(place.error, version, place.partition)
        if version >= LEADER_SINCE and code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            data.current_leader = LeaderIdAndEpoch(node_id, LEADER_EPOCH)
        return data
    if place.partition is not None and not place.partition.deleted:
        offsets = place.partition.log.offsets
        data.high_watermark = offsets.durable
        data.last_stable_offset = offsets.stable
        data.log_start_offset = offsets.start
    if place.buffers:
        data.records = place.buffers
    return data


def _code(error: KafkaError, version: int, partition: Partition | None) -> ErrorCode:
    """No code that is newer than the client's version (``FetchResponse.java``)."""
    if version >= BY_ID_SINCE and partition is not None and partition.deleted:
        return ErrorCode.UNKNOWN_TOPIC_ID
    code = storage_error_since(STORAGE_ERROR_SINCE, error.code, version)
    return known_code(code) if version < BATCHES_SINCE else code
