"""OffsetForLeaderEpoch: epoch 0 reaches to the high watermark, others never were."""

from pathlib import Path

import pytest

from broker.apis.offset_for_leader_epoch import offset_for_leader_epoch
from broker.protocol.errors import ErrorCode
from broker.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.support.rig import batch_of, call, create, produce_one, rig, run


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


def test_unknown_partitions_are_told(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            topic = OffsetForLeaderTopic("nowhere", [OffsetForLeaderPartition(0)])
            request = OffsetForLeaderEpochRequest(-2, [topic])
            response = await call(offset_for_leader_epoch, request, broker, 2)
            code = response.topics[0].partitions[0].error_code
            assert code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    run(scenario)
