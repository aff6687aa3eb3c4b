"""Of a long request whose connection is lost only what has begun takes effect.

Whoever hung up may have come back, and somebody else may have made, committed or
written what the rest of the request would take away again, or change.
"""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from broker.apis import add_partitions_to_txn as adding
from broker.apis import delete_records as trimming
from broker.apis.add_partitions_to_txn import add_partitions_to_txn
from broker.apis.alter_configs import alter_configs
from broker.apis.create_partitions import create_partitions
from broker.apis.create_topics import create_topics
from broker.apis.delete_records import delete_records
from broker.apis.incremental_alter_configs import incremental_alter_configs
from broker.apis.leave_group import LEAVERS_A_TURN, leave_group
from broker.apis.write_txn_markers import MARKERS_A_TURN, write_txn_markers
from broker.dispatch.turns import PARTS_A_TURN
from broker.groups.states import GroupState
from broker.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from broker.protocol.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
)
from broker.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from broker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from broker.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from broker.protocol.messages.incremental_alter_configs import (
    AlterableConfig as Altered,
)
from broker.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource as AlteredResource,
)
from broker.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
)
from broker.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from broker.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from broker.runtime.configs.layers import Kind
from broker.runtime.services import Broker
from tests.support.coordinating import housed, story
from tests.support.members import stable
from tests.support.rig import batch_of, create, produce_one, rig, run, start
from tests.support.transacting import record
from tests.support.transactional_client import TransactionalClient

MANY = 2 * PARTS_A_TURN
NAMES = [f"t{number}" for number in range(MANY)]


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def hang_up(
    handler: Any, request: Any, broker: Broker, version: int = -1
) -> None:
    """Ask, and be gone as soon as it has begun."""
    open_request = start(handler, request, broker, version)
    await turns(1)
    open_request.abandon()
    await turns(9)
    await create(broker, "later")  # behind what the catalog was asked for


def configured(number: int) -> AlterConfigsResource:
    value = [AlterableConfig("retention.ms", "7")]
    return AlterConfigsResource(Kind.TOPIC, NAMES[number], value)


def altered(number: int) -> AlteredResource:
    value = [Altered("retention.ms", 0, "7")]
    return AlteredResource(Kind.TOPIC, NAMES[number], value)


GROWN = [CreatePartitionsTopic(name, 2, None) for name in NAMES]
CHANGES = [
    (create_partitions, CreatePartitionsRequest(GROWN)),
    (alter_configs, AlterConfigsRequest(list(map(configured, range(MANY))))),
    (
        incremental_alter_configs,
        IncrementalAlterConfigsRequest(list(map(altered, range(MANY)))),
    ),
]


def has_changed(broker: Broker, name: str) -> bool:
    topic = broker.topics.named(name)
    return topic.partitions == 2 or topic.configs.get("retention.ms") == "7"


@pytest.mark.parametrize(("handler", "request_"), CHANGES)
def test_of_many_topics_those_are_changed_that_have_begun(
    tmp_path: Path, handler: Any, request_: Any
) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            for name in NAMES:
                await create(broker, name)
            await hang_up(handler, request_, broker)
            changed = [name for name in NAMES if has_changed(broker, name)]
            assert changed == NAMES[: len(changed)]
            assert 0 < len(changed) <= PARTS_A_TURN

    run(scenario)


def test_of_many_topics_those_are_made_that_have_begun(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            asked = [CreatableTopic(name, 1, 1) for name in NAMES]
            await hang_up(create_topics, CreateTopicsRequest(asked), broker)
            made = [name for name in NAMES if broker.topics.get(name) is not None]
            assert made == NAMES[: len(made)]
            assert 0 < len(made) <= PARTS_A_TURN

    run(scenario)


@pytest.mark.parametrize(("handler", "request_"), CHANGES)
def test_few_changes_take_their_effect_whoever_hangs_up(
    tmp_path: Path, handler: Any, request_: Any
) -> None:
    few = type(request_)(getattr(request_, request_.__slots__[0])[:PARTS_A_TURN])

    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            for name in NAMES[:PARTS_A_TURN]:
                await create(broker, name)
            changing = start(handler, few, broker)
            assert not hasattr(changing, "abandon")
            await changing
            assert all(has_changed(broker, name) for name in NAMES[:PARTS_A_TURN])

    run(scenario)


def test_records_stay_whose_deletion_was_not_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trimming, "ITEMS_A_TURN", 1)

    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            partition = await create(broker, "t", 3)
            await produce_one(broker, "t", batch_of(b"a"))
            asked = [DeleteRecordsPartition(index, -1) for index in range(3)]
            request = DeleteRecordsRequest([DeleteRecordsTopic("t", asked)])
            deleting = start(delete_records, request, broker)
            deleting.abandon()
            await turns(9)
            await create(broker, "later")
            assert partition.log_start == 0

    run(scenario)


def test_members_stay_whose_turn_has_not_come(tmp_path: Path) -> None:
    async def play() -> None:
        async with housed(tmp_path) as house:
            member = await stable(house)
            names = [str(number) for number in range(LEAVERS_A_TURN)]
            members = [MemberIdentity(name) for name in (*names, member)]
            asked = LeaveGroupRequest("g", members=members)
            leaving = start(leave_group, asked, house.broker)
            leaving.abandon()
            await turns(9)
            assert house.groups.describe("g").state is GroupState.STABLE

    story(play)


def test_markers_are_not_written_whose_turn_has_not_come(tmp_path: Path) -> None:
    async def play() -> None:
        async with housed(tmp_path) as house:
            partition = house.broker.partitions.named("flights", 0)
            await record(partition, 70)
            nowhere = WritableTxnMarkerTopic("nowhere", list(range(MARKERS_A_TURN)))
            topics = [nowhere, WritableTxnMarkerTopic("flights", [0])]
            request = WriteTxnMarkersRequest([WritableTxnMarker(70, 0, topics=topics)])
            writing = start(write_txn_markers, request, house.broker)
            await turns(1)
            writing.abandon()
            await turns(9)
            assert list(partition.log.transactions.open) == [70]

    story(play)


@pytest.mark.parametrize("version", [3, 4])
def test_a_transaction_does_not_begin_after_its_producer_hung_up(
    tmp_path: Path, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adding, "ITEMS_A_TURN", 1)

    async def play() -> None:
        async with housed(tmp_path) as house:
            client = TransactionalClient(house)
            await client.init()
            topics = [AddPartitionsToTxnTopic("flights", [0, 1, 2])]
            known = client.id, client.producer_id, client.epoch
            request = AddPartitionsToTxnRequest([], *known, topics)
            if version >= 4:
                one = AddPartitionsToTxnTransaction(*known, False, topics)
                request = AddPartitionsToTxnRequest([one])
            beginning = start(add_partitions_to_txn, request, house.broker, version)
            beginning.abandon()
            await turns(9)
            (state,) = {house.broker.transactions.describe(client.id).state}
            assert state.name == "EMPTY"

    story(play)
