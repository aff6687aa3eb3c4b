"""What is asked by few elements has begun when its handler returns, whatever else does.

Then it came whole and takes its effect, though who asked hangs up in that moment. What
has many elements waits where enough began.
"""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.apis.add_partitions_to_txn import add_partitions_to_txn
from broker.apis.delete_groups import delete_groups
from broker.apis.delete_records import delete_records
from broker.apis.delete_topics import delete_topics
from broker.apis.offset_commit import offset_commit
from broker.apis.offset_delete import offset_delete
from broker.apis.sync_group import sync_group
from broker.apis.txn_offset_commit import txn_offset_commit
from broker.dispatch.turns import PARTS_A_TURN, Underway
from broker.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from broker.protocol.messages.delete_groups import DeleteGroupsRequest
from broker.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from broker.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from broker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from broker.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from broker.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from broker.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from broker.runtime.process.long_work import PIECES_A_TURN, pieces
from tests.support.coordinating import housed, story
from tests.support.rig import call, start


def topics_of(
    topic: Callable[..., Any], partition: Callable[[int], Any]
) -> Callable[[int], list[Any]]:
    """A topic of so many partitions."""
    return lambda count: [
        topic("flights", partitions=list(map(partition, range(count))))
    ]


COMMITTED = topics_of(OffsetCommitRequestTopic, OffsetCommitRequestPartition)
TXN_COMMITTED = topics_of(TxnOffsetCommitRequestTopic, TxnOffsetCommitRequestPartition)
FORGOTTEN = topics_of(OffsetDeleteRequestTopic, OffsetDeleteRequestPartition)
TRIMMED = topics_of(DeleteRecordsTopic, DeleteRecordsPartition)
ADDED = topics_of(AddPartitionsToTxnTopic, int)

ASKED: list[tuple[Any, int, Callable[[int], Any]]] = [
    (offset_commit, 8, lambda n: OffsetCommitRequest("g", topics=COMMITTED(n))),
    (offset_delete, 0, lambda n: OffsetDeleteRequest("g", FORGOTTEN(n))),
    (txn_offset_commit, 3, lambda n: TxnOffsetCommitRequest(topics=TXN_COMMITTED(n))),
    (
        add_partitions_to_txn,
        3,
        lambda n: AddPartitionsToTxnRequest(v3_and_below_topics=ADDED(n)),
    ),
    (delete_records, 2, lambda n: DeleteRecordsRequest(TRIMMED(n))),
    (delete_groups, 2, lambda n: DeleteGroupsRequest(list(map(str, range(n))))),
    (delete_topics, 6, lambda n: DeleteTopicsRequest([DeleteTopicState("no")] * n)),
    (delete_topics, 5, lambda n: DeleteTopicsRequest(topic_names=["no"] * n)),
    (
        sync_group,
        3,
        lambda n: SyncGroupRequest("g", assignments=[SyncGroupRequestAssignment()] * n),
    ),
]


@pytest.mark.parametrize(
    ("handler", "version", "request_of"),
    ASKED,
    ids=[f"{handler.__name__}-{version}" for handler, version, _ in ASKED],
)
def test_few_have_begun_although_the_turn_is_full_and_many_wait(
    tmp_path: Path, handler: Any, version: int, request_of: Callable[[int], Any]
) -> None:
    async def play() -> None:
        async with housed(tmp_path) as house:
            kept = OffsetCommitRequest("g", topics=COMMITTED(1))
            await call(offset_commit, kept, house.broker, 8)
            for _ in range(PIECES_A_TURN):
                pieces().note_begun()
            few = start(handler, request_of(PARTS_A_TURN), house.broker, version)
            assert not isinstance(few, Underway)
            many = start(handler, request_of(PARTS_A_TURN + 1), house.broker, version)
            assert isinstance(many, Underway)
            await many
            if inspect.isawaitable(few):
                await few

    story(play)
