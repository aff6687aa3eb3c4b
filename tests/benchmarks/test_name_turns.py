"""No request of a hundred thousand names or keys holds the loop for long.

What it names is not there, or named many times: so all that is done for it is to look
at each name, and to say so. Each goes over a real connection, from its bytes to those
of its answer.
"""

import random
import sys
from pathlib import Path
from typing import Any

import pytest

from broker.groups.offsets import Committed
from broker.ids import PartitionNumber
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
from broker.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from broker.protocol.messages.delete_groups import DeleteGroupsRequest
from broker.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from broker.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from broker.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.protocol.messages.incremental_alter_configs import (
    AlterableConfig as Alteration,
)
from broker.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource as AlteredResource,
)
from broker.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
)
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
from broker.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from broker.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from broker.topics.topic import Topic
from tests.support.rig import rig, run
from tests.support.serving import serving
from tests.support.turns import (
    BUDGET_MS,
    longest_callback_ms,
    uncollected,
)

MANY = 100_000
NAMES = [f"n{number}" for number in range(MANY)]
SHUFFLED = random.Random(1).sample(NAMES, MANY)
HERE = "here"

REQUESTS: dict[str, tuple[Any, int]] = {
    "delete topics": (DeleteTopicsRequest([DeleteTopicState(n) for n in NAMES]), 6),
    "delete topics by name": (DeleteTopicsRequest(topic_names=NAMES), 5),
    "delete a topic often": (DeleteTopicsRequest([DeleteTopicState("t")] * MANY), 6),
    "create topics": (CreateTopicsRequest([CreatableTopic(n, 0, 1) for n in NAMES]), 7),
    "create too many partitions": (
        CreateTopicsRequest([CreatableTopic(n, 1, 1) for n in NAMES]),
        7,
    ),
    "create topics twice": (
        CreateTopicsRequest([CreatableTopic(n, 0, 1) for n in NAMES[::2] * 2]),
        7,
    ),
    "create a topic of many keys": (
        CreateTopicsRequest(
            [
                CreatableTopic(
                    "t", 1, 1, [], [CreatableTopicConfig(n, "") for n in NAMES]
                )
            ]
        ),
        7,
    ),
    "create partitions": (
        CreatePartitionsRequest([CreatePartitionsTopic(n, 2, None) for n in NAMES]),
        3,
    ),
    "alter configs": (
        AlterConfigsRequest([AlterConfigsResource(2, n, []) for n in NAMES]),
        2,
    ),
    "alter a config often": (
        AlterConfigsRequest([AlterConfigsResource(2, HERE, [])] * MANY),
        2,
    ),
    "alter many keys": (
        AlterConfigsRequest(
            [AlterConfigsResource(2, HERE, [AlterableConfig(n, "1") for n in NAMES])]
        ),
        2,
    ),
    "edit configs": (
        IncrementalAlterConfigsRequest([AlteredResource(2, n, []) for n in NAMES]),
        1,
    ),
    "edit many keys": (
        IncrementalAlterConfigsRequest(
            [AlteredResource(2, HERE, [Alteration(n, 1, None) for n in NAMES])]
        ),
        1,
    ),
    "fetch offsets": (
        OffsetFetchRequest(
            "g", [OffsetFetchRequestTopic(n, list(range(50))) for n in NAMES[::50]]
        ),
        7,
    ),
    "fetch offsets of groups": (
        OffsetFetchRequest(
            groups=[
                OffsetFetchRequestGroup(
                    f"g{number}",
                    topics=[
                        OffsetFetchRequestTopics(
                            HERE, partition_indexes=list(range(4_000))
                        )
                    ],
                )
                for number in range(25)
            ]
        ),
        8,
    ),
    "describe configs": (
        DescribeConfigsRequest([DescribeConfigsResource(2, n, None) for n in NAMES]),
        4,
    ),
    "describe a config often": (
        DescribeConfigsRequest([DescribeConfigsResource(2, HERE, None)] * MANY),
        4,
    ),
    "look at many transactions": (
        AddPartitionsToTxnRequest(
            [
                AddPartitionsToTxnTransaction(
                    n, 1, 0, True, [AddPartitionsToTxnTopic(HERE, [0])]
                )
                for n in NAMES
            ]
        ),
        4,
    ),
    "describe topic partitions": (
        DescribeTopicPartitionsRequest([TopicRequest(n) for n in SHUFFLED]),
        0,
    ),
    "assign to many members": (
        SyncGroupRequest(
            "g",
            1,
            "m",
            assignments=[SyncGroupRequestAssignment(n, b"") for n in NAMES] * 5,
        ),
        4,
    ),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_of_a_hundred_thousand_names(name: str, tmp_path: Path) -> None:
    request, version = REQUESTS[name]

    async def scenario() -> None:
        async with rig(tmp_path) as broker, serving((), broker) as server:
            broker.topics.load([Topic(1, bytes(15) + b"\1", HERE, 1)])
            with uncollected():
                least = await longest_callback_ms(server, request, version)
            sys.stdout.write(f"{name}: longest turn {least:.1f} ms\n")
            assert least < BUDGET_MS, f"{name}: {least:.1f} ms in one turn"

    run(scenario)


@pytest.mark.shared_out("turns", 3)
@pytest.mark.parametrize(("count", "each"), [(1, MANY), (MANY, 1)])
def test_a_fetch_of_a_hundred_thousand_partitions(
    count: int, each: int, tmp_path: Path
) -> None:
    places = [FetchPartition(index) for index in range(each)]
    asked = [FetchTopic(name, partitions=places) for name in NAMES[:count]]
    request = FetchRequest(topics=asked)

    async def scenario() -> None:
        async with rig(tmp_path) as broker, serving((), broker) as server:
            with uncollected():
                least = await longest_callback_ms(server, request, 12)
            sys.stdout.write(f"fetch of {count} topics: longest turn {least:.1f} ms\n")
            assert least < BUDGET_MS, f"{least:.1f} ms in one turn"

    run(scenario)


@pytest.mark.shared_out("turns", 3)
@pytest.mark.parametrize(("count", "each"), [(10, 10_000), (100_000, 1)])
@pytest.mark.parametrize("version", [7, 8])
def test_all_that_a_group_committed(
    version: int, count: int, each: int, tmp_path: Path
) -> None:
    topics = [Topic(n, n.to_bytes(16), f"t{n}", each) for n in range(1, count + 1)]
    group = OffsetFetchRequestGroup("g", None, -1, None)
    asked = OffsetFetchRequest("g", None, [group])

    async def scenario() -> None:
        async with rig(tmp_path) as broker, serving((), broker) as server:
            broker.topics.load(topics)
            broker.groups.offsets._commits.groups["g"] = {
                topic.key(PartitionNumber(index)): Committed(1)
                for topic in topics
                for index in range(each)
            }
            with uncollected():
                least = await longest_callback_ms(server, asked, version)
            sys.stdout.write(f"all offsets, v{version}: longest turn {least:.1f} ms\n")
            assert least < BUDGET_MS, f"{least:.1f} ms in one turn"

    run(scenario)


CHANGES: dict[str, tuple[Any, int]] = {
    "delete a group": (DeleteGroupsRequest(["g"]), 2),
    "delete offsets": (
        OffsetDeleteRequest(
            "g",
            [
                OffsetDeleteRequestTopic(
                    HERE, [OffsetDeleteRequestPartition(i) for i in range(MANY)]
                )
            ],
        ),
        0,
    ),
    "commit offsets": (
        OffsetCommitRequest(
            group_id="g",
            generation_id_or_member_epoch=-1,
            topics=[
                OffsetCommitRequestTopic(
                    name=HERE,
                    partitions=[
                        OffsetCommitRequestPartition(i, 7, committed_metadata="")
                        for i in range(MANY)
                    ],
                )
            ],
        ),
        8,
    ),
}


@pytest.mark.shared_out("turns", 3)
@pytest.mark.parametrize("name", CHANGES)
def test_a_change_of_a_hundred_thousand_offsets(name: str, tmp_path: Path) -> None:
    request, version = CHANGES[name]
    here = Topic(1, bytes(15) + b"\1", HERE, MANY)

    async def scenario() -> None:
        async with rig(tmp_path) as broker, serving((), broker) as server:
            broker.topics.load([here])
            commits = broker.groups.offsets._commits

            def prepare() -> None:
                offsets = {here.key(i): Committed(1) for i in range(MANY)}
                commits.put("g", {}, None)
                commits.put("g", offsets)

            with uncollected():
                least = await longest_callback_ms(server, request, version, prepare)
            sys.stdout.write(f"{name}: longest turn {least:.1f} ms\n")
            assert least < BUDGET_MS, f"{name}: {least:.1f} ms in one turn"

    run(scenario)
