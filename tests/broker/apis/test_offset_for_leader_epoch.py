"""OffsetForLeaderEpoch: epoch 0 reaches to the high watermark, others never were."""

from pathlib import Path

import pytest

from broker.apis.list_offsets import list_offsets
from broker.apis.metadata import metadata
from broker.apis.offset_for_leader_epoch import offset_for_leader_epoch
from broker.protocol.errors import ErrorCode
from broker.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from broker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from broker.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from broker.records.batch import read_header
from tests.support.batches import patch
from tests.support.rig import (
    batch_of,
    batches_in,
    call,
    create,
    fetch_one,
    produce_one,
    rig,
    run,
)


@pytest.mark.parametrize(
    ("current", "asked", "expected"),
    [
        (-1, 0, (0, 0, 2)),
        (0, 0, (0, 0, 2)),
        (0, 1, (0, -1, -1)),
        (0, -1, (0, -1, -1)),
        (1, 0, (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)),
    ],
)
def test_where_an_epoch_ended(
    tmp_path: Path, current: int, asked: int, expected: tuple[int, int, int]
) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            await produce_one(broker, "t", batch_of(b"a", b"b"))
            partition = OffsetForLeaderPartition(0, current, asked)
            topic = OffsetForLeaderTopic("t", [partition])
            request = OffsetForLeaderEpochRequest(-2, [topic])
            response = await call(offset_for_leader_epoch, request, broker)
            (end,) = response.topics[0].partitions
            assert (end.error_code, end.leader_epoch, end.end_offset) == expected

    run(scenario)


def test_every_api_tells_the_same_epoch(tmp_path: Path) -> None:
    """A client that sees a lower one than before stays where it was (KIP-320)."""

    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            claimed = patch(batch_of(b"a"), ">i", 12, 77)
            await produce_one(broker, "t", claimed)
            (batch,) = batches_in(await fetch_one(broker, "t", 0))
            asked = MetadataRequest([MetadataRequestTopic(name="t")])
            described = await call(metadata, asked, broker)
            wanted = ListOffsetsTopic("t", [ListOffsetsPartition(0, timestamp=-1)])
            end = await call(list_offsets, ListOffsetsRequest(topics=[wanted]), broker)
            assert {
                read_header(batch).partition_leader_epoch,
                described.topics[0].partitions[0].leader_epoch,
                end.topics[0].partitions[0].leader_epoch,
            } == {0}

    run(scenario)


def test_unknown_partitions_are_told(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            topic = OffsetForLeaderTopic("nowhere", [OffsetForLeaderPartition(0)])
            request = OffsetForLeaderEpochRequest(-2, [topic])
            response = await call(offset_for_leader_epoch, request, broker, 2)
            code = response.topics[0].partitions[0].error_code
            assert code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    run(scenario)
