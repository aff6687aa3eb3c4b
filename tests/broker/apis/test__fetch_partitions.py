"""A partition of a fetch: what of it is told to whom."""

from pathlib import Path

import pytest

from broker.apis._fetch_partitions import data_of, find_place, replica_id_of
from broker.protocol.errors import ErrorCode, KafkaError
from broker.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    LeaderIdAndEpoch,
    ReplicaState,
)
from broker.runtime.partitions.reads import Place
from tests.support.rig import NODE_ID, batch_of, create, produce_one, rig, run


def test_a_replica_says_so_in_a_field_that_moved() -> None:
    request = FetchRequest(replica_id=3)
    assert [replica_id_of(request, version) for version in (14, 15)] == [3, -1]
    request.replica_state = ReplicaState(4)
    assert [replica_id_of(request, version) for version in (14, 15)] == [3, 4]


@pytest.mark.parametrize(
    ("version", "code", "leader"),
    [
        (15, ErrorCode.NOT_LEADER_OR_FOLLOWER, None),
        (16, ErrorCode.NOT_LEADER_OR_FOLLOWER, LeaderIdAndEpoch(NODE_ID, 0)),
        (18, ErrorCode.UNKNOWN_LEADER_EPOCH, None),
        (5, ErrorCode.KAFKA_STORAGE_ERROR, None),
    ],
)
def test_who_leads_is_told_to_who_asked_a_node_that_does_not(
    version: int, code: ErrorCode, leader: LeaderIdAndEpoch | None
) -> None:
    place = Place(None, 0, 1, KafkaError(code))
    data = data_of(1, place, version, NODE_ID)
    assert data.current_leader == leader
    assert (data.error_code == code) is (version > 5)
    assert data.high_watermark == data.last_stable_offset == -1


def test_a_place_is_found_by_name_or_by_id(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            partition = await create(broker, "t")
            await produce_one(broker, "t", batch_of(b"a"))
            for version, topic in (
                (12, FetchTopic("t")),
                (13, FetchTopic(topic_id=broker.topics.named("t").id)),
            ):
                place = Place(None, 0, 1)
                find_place(place, topic, FetchPartition(0), -1, version, broker)
                assert (place.partition, place.error) == (partition, None)
                data = data_of(0, place, version, NODE_ID)
                assert (data.high_watermark, data.log_start_offset) == (1, 0)
                find_place(place, topic, FetchPartition(1), -1, version, broker)
                assert place.error is not None
                unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                assert place.error.code == unknown

    run(scenario)
