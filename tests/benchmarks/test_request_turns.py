"""No request holds the loop longer than some milliseconds, however much it names.

Each goes over a real connection, from its bytes to those of its answer. What counts
is the processor time of each callback of the loop; the best of some rounds counts.
"""

import gc
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from broker.apis.produce import produce
from broker.groups.offsets import Committed
from broker.protocol.messages import (
    describe_configs,
    describe_log_dirs,
    describe_topic_partitions,
    list_offsets,
    offset_commit,
    offset_fetch,
)
from broker.protocol.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
)
from broker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from broker.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from broker.protocol.messages.describe_groups import DescribeGroupsRequest
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.protocol.messages.find_coordinator import FindCoordinatorRequest
from broker.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from broker.protocol.messages.list_groups import ListGroupsRequest
from broker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from broker.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
)
from broker.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tests.benchmarks.thousands import EACH, EMPTY, NAMES, known
from tests.support.rig import batch_of, produce_request, rig, run, start
from tests.support.serving import serving
from tests.support.turns import BUDGET_MS, longest_callback_ms


def fetched(names: Iterable[str]) -> list[FetchTopic]:
    return [
        FetchTopic(
            topic=name,
            partitions=[FetchPartition(i, partition_max_bytes=1 << 20) for i in EACH],
        )
        for name in names
    ]


def offsets_at(timestamp: int) -> list[list_offsets.ListOffsetsTopic]:
    return [
        list_offsets.ListOffsetsTopic(
            name, [list_offsets.ListOffsetsPartition(i, -1, timestamp) for i in EACH]
        )
        for name in NAMES
    ]


def committed() -> list[offset_commit.OffsetCommitRequestTopic]:
    return [
        offset_commit.OffsetCommitRequestTopic(
            name=name,
            partitions=[
                offset_commit.OffsetCommitRequestPartition(i, 7, committed_metadata="")
                for i in EACH
            ],
        )
        for name in NAMES
    ]


CASES: dict[str, tuple[Any, int]] = {
    "metadata by name": (
        MetadataRequest([MetadataRequestTopic(name=n) for n in NAMES]),
        12,
    ),
    "fetch": (
        FetchRequest(max_wait_ms=1, max_bytes=1 << 20, topics=fetched(NAMES)),
        12,
    ),
    "list offsets": (list_offsets.ListOffsetsRequest(topics=offsets_at(-1)), 7),
    "list offsets by time": (list_offsets.ListOffsetsRequest(topics=offsets_at(1)), 7),
    "log dirs": (describe_log_dirs.DescribeLogDirsRequest(None), 4),
    "topic partitions": (
        describe_topic_partitions.DescribeTopicPartitionsRequest([], 2_000),
        0,
    ),
    "offset fetch": (
        offset_fetch.OffsetFetchRequest(
            groups=[offset_fetch.OffsetFetchRequestGroup(group_id="all", topics=None)]
        ),
        8,
    ),
    "offset commit": (
        offset_commit.OffsetCommitRequest(
            group_id="simple", generation_id_or_member_epoch=-1, topics=committed()
        ),
        8,
    ),
    "list groups": (ListGroupsRequest(), 4),
    "describe groups": (
        DescribeGroupsRequest([f"group-{n}" for n in range(len(NAMES) * len(EACH))]),
        5,
    ),
    "delete records": (
        DeleteRecordsRequest(
            [
                DeleteRecordsTopic(n, [DeleteRecordsPartition(i, 0) for i in EACH])
                for n in NAMES
            ]
        ),
        2,
    ),
    "describe configs": (
        describe_configs.DescribeConfigsRequest(
            [describe_configs.DescribeConfigsResource(2, n, None) for n in NAMES[:300]]
        ),
        4,
    ),
    "alter configs": (
        AlterConfigsRequest(
            [
                AlterConfigsResource(2, n, [AlterableConfig("retention.ms", "1000")])
                for n in NAMES
            ],
            validate_only=True,
        ),
        2,
    ),
    "create topics": (
        CreateTopicsRequest(
            [CreatableTopic(f"new-{n}", 5, 1) for n in range(300)], validate_only=True
        ),
        7,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_request_that_names_thousands(name: str, tmp_path: Path) -> None:
    request, version = CASES[name]

    async def scenario() -> None:
        async with rig(tmp_path) as broker, serving((), broker) as server:
            known(broker)
            least = await longest_callback_ms(server, request, version)
            sys.stdout.write(f"{name}: longest turn {least:.1f} ms\n")
            assert least < BUDGET_MS, f"{name}: {least:.1f} ms in one turn"

    run(scenario)


"""Topics without partitions, or names of what is not here."""
BARE: dict[str, tuple[Any, int]] = {
    "produce": (ProduceRequest(None, 1, 1000, [TopicProduceData("t")] * EMPTY), 9),
    "fetch": (FetchRequest(topics=[FetchTopic("t")] * EMPTY), 12),
    "list offsets": (
        list_offsets.ListOffsetsRequest(
            topics=[list_offsets.ListOffsetsTopic("t")] * EMPTY
        ),
        7,
    ),
    "offset commit": (
        offset_commit.OffsetCommitRequest(
            "simple", topics=[offset_commit.OffsetCommitRequestTopic("t")] * EMPTY
        ),
        8,
    ),
    "offset fetch": (
        offset_fetch.OffsetFetchRequest(
            "all", [offset_fetch.OffsetFetchRequestTopic("t")] * EMPTY
        ),
        7,
    ),
    "offset delete": (
        OffsetDeleteRequest("all", [OffsetDeleteRequestTopic("t")] * EMPTY),
        0,
    ),
    "leave group": (
        LeaveGroupRequest("all", members=[MemberIdentity("m")] * EMPTY),
        5,
    ),
    "find coordinator": (
        FindCoordinatorRequest(coordinator_keys=["k"] * EMPTY),
        6,
    ),
    "produce with wrong acks": (
        ProduceRequest(
            None,
            2,
            1000,
            [TopicProduceData("t", bytes(16), [PartitionProduceData(0)] * EMPTY)],
        ),
        9,
    ),
    "metadata of names that no topic has": (
        MetadataRequest([MetadataRequestTopic(name=f"!{n}") for n in range(EMPTY)]),
        12,
    ),
    "keys of a configuration": (
        describe_configs.DescribeConfigsRequest(
            [
                describe_configs.DescribeConfigsResource(
                    4, "", [f"k{n}" for n in range(EMPTY)]
                )
            ]
        ),
        4,
    ),
    "states": (ListGroupsRequest(states_filter=[f"s{n}" for n in range(EMPTY)]), 4),
}


@pytest.mark.parametrize("name", BARE)
def test_a_request_of_thousands_of_topics_without_partitions(
    name: str, tmp_path: Path
) -> None:
    request, version = BARE[name]

    async def scenario() -> None:
        async with rig(tmp_path) as broker, serving((), broker) as server:
            broker.groups.offsets._commits.groups["all"] = {(1, 0): Committed(5)}
            gc.disable()  # a broker's collector looks seldom
            try:
                least = await longest_callback_ms(server, request, version)
            finally:
                gc.enable()
            sys.stdout.write(f"{name}: longest turn {least:.1f} ms\n")
            assert least < BUDGET_MS, f"{name}: {least:.1f} ms in one turn"

    run(scenario)


@pytest.mark.parametrize(("place", "hot_bytes"), [("memory", 64 << 20), ("files", 0)])
def test_a_fetch_of_a_record_from_each_of_thousands(
    place: str, hot_bytes: int, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with (
            rig(tmp_path, hot_bytes=hot_bytes) as broker,
            serving((), broker) as server,
        ):
            known(broker)
            for name in NAMES:
                batches = [(index, batch_of(b"v")) for index in EACH]
                await start(produce, produce_request(name, *batches), broker, 9)
            request, version = CASES["fetch"]
            least = await longest_callback_ms(server, request, version)
            sys.stdout.write(f"fetch from {place}: longest turn {least:.1f} ms\n")
            assert least < BUDGET_MS, f"{place}: {least:.1f} ms in one turn"

    run(scenario)


@pytest.mark.parametrize("version", [9, 2])
def test_a_produce_into_each_of_thousands(version: int, tmp_path: Path) -> None:
    """Reading it, placing its batches, completing them and writing the answer."""

    async def scenario() -> None:
        async with rig(tmp_path) as broker, serving((), broker) as server:
            known(broker)
            data = [
                TopicProduceData(
                    name, bytes(16), [PartitionProduceData(i, batch) for i in EACH]
                )
                for name in NAMES
            ]
            request = ProduceRequest(None, -1, 30_000, data)
            least = await longest_callback_ms(server, request, version)
            sys.stdout.write(f"produce: longest turn {least:.1f} ms\n")
            assert least < BUDGET_MS, f"{least:.1f} ms in one turn"
            marks = {p.high_watermark for p in broker.partitions}
            assert min(marks) > 0

    batch = bytes(batch_of(b"v"))
    run(scenario)
