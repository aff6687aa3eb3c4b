"""The internal topic that clients look for: shown as a Kafka shows it, and empty.

What is expected here was asked of Apache Kafka 4.3.1. It differs in one point: there an
administrator may grow, alter and delete the topic, since records are in it.
"""

from pathlib import Path
from typing import Any

import pytest

from broker.apis.alter_configs import alter_configs
from broker.apis.create_partitions import create_partitions
from broker.apis.create_topics import create_topics
from broker.apis.delete_records import delete_records
from broker.apis.delete_topics import delete_topics
from broker.apis.describe_configs import describe_configs
from broker.apis.describe_log_dirs import describe_log_dirs
from broker.apis.describe_topic_partitions import describe_topic_partitions
from broker.apis.incremental_alter_configs import incremental_alter_configs
from broker.apis.list_offsets import list_offsets
from broker.apis.metadata import metadata
from broker.protocol.errors import ErrorCode
from broker.protocol.messages import alter_configs as alter
from broker.protocol.messages import delete_records as records
from broker.protocol.messages import describe_log_dirs as dirs
from broker.protocol.messages import incremental_alter_configs as incremental
from broker.protocol.messages import list_offsets as offsets
from broker.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from broker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from broker.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from broker.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from broker.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from broker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from broker.runtime.services import Broker
from tests.support.rig import (
    batch_of,
    call,
    create,
    fetch_one,
    produce_one,
    rig,
    run,
)

NAME = "__consumer_offsets"
TOPIC = 2


async def described(broker: Broker, *names: str) -> Any:
    asked = [MetadataRequestTopic(name=name) for name in names] if names else None
    return (await call(metadata, MetadataRequest(asked), broker)).topics


def test_it_is_told_by_name_by_id_and_among_all(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            (named,) = await described(broker, NAME)
            assert (named.error_code, named.is_internal) == (0, True)
            assert len(named.partitions) == 50
            (by_id,) = (
                await call(
                    metadata,
                    MetadataRequest(
                        [MetadataRequestTopic(topic_id=named.topic_id, name=None)]
                    ),
                    broker,
                )
            ).topics
            assert by_id == named
            told = await described(broker)
            assert [topic.name for topic in told] == [NAME, "t"]
            asked = DescribeTopicPartitionsRequest([TopicRequest(NAME)], 3)
            page = await call(describe_topic_partitions, asked, broker)
            assert page.topics[0].is_internal
            assert page.topics[0].topic_id == named.topic_id
            assert page.next_cursor.partition_index == 3
            assert len(broker.topics) == 1

    run(scenario)


def test_it_is_the_same_after_a_restart(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            (before,) = await described(broker, NAME)
        async with rig(tmp_path) as broker:
            assert await described(broker, NAME) == [before]

    run(scenario)


def test_asking_for_one_that_is_not_shown_creates_none(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            (topic,) = await described(broker, "__transaction_state")
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert (topic.error_code, topic.is_internal) == (code, True)

    run(scenario)


def test_it_is_empty(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            places = [
                offsets.ListOffsetsPartition(0, -1, timestamp)
                for timestamp in (-1, -2, 1_000)
            ]
            for place in places:
                asked = offsets.ListOffsetsRequest(
                    -1, 0, [offsets.ListOffsetsTopic(NAME, [place])]
                )
                answer = (await call(list_offsets, asked, broker)).topics[0]
                (found,) = answer.partitions
                expected = 0 if place.timestamp < 0 else -1
                assert (found.error_code, found.offset) == (0, expected)
            data = await fetch_one(broker, NAME, 0)
            assert (data.error_code, data.high_watermark) == (0, 0)
            request = dirs.DescribeLogDirsRequest(
                [dirs.DescribableLogDirTopic(NAME, [0, 49, 50])]
            )
            (result,) = (await call(describe_log_dirs, request, broker)).results
            sizes = [
                (one.partition_index, one.partition_size)
                for one in result.topics[0].partitions
            ]
            assert sizes == [(0, 0), (49, 0)]

    run(scenario)


def test_its_settings_are_kafka_s(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            keys = ["cleanup.policy", "compression.type", "segment.bytes"]
            request = DescribeConfigsRequest(
                [DescribeConfigsResource(TOPIC, NAME, keys)]
            )
            (result,) = (await call(describe_configs, request, broker)).results
            values = {config.name: config.value for config in result.configs}
            assert values == {
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": "104857600",
            }

    run(scenario)


async def produced(broker: Broker) -> int:
    return (await produce_one(broker, NAME, batch_of(b"x"))).error_code


async def made(broker: Broker, name: str = NAME) -> int:
    request = CreateTopicsRequest([CreatableTopic(name, 1, 1)])
    return int((await call(create_topics, request, broker)).topics[0].error_code)


async def made_another(broker: Broker) -> int:
    return await made(broker, "__transaction_state")


async def grown(broker: Broker) -> int:
    request = CreatePartitionsRequest([CreatePartitionsTopic(NAME, 60, None)])
    return int((await call(create_partitions, request, broker)).results[0].error_code)


async def deleted(broker: Broker) -> int:
    request = DeleteTopicsRequest(topics=[DeleteTopicState(NAME)])
    return int((await call(delete_topics, request, broker)).responses[0].error_code)


async def emptied(broker: Broker) -> int:
    topic = records.DeleteRecordsTopic(NAME, [records.DeleteRecordsPartition(0, 0)])
    request = records.DeleteRecordsRequest([topic], 1_000)
    answer = await call(delete_records, request, broker)
    return int(answer.topics[0].partitions[0].error_code)


async def altered(broker: Broker) -> int:
    resource = alter.AlterConfigsResource(
        TOPIC, NAME, [alter.AlterableConfig("retention.ms", "5")]
    )
    answer = await call(alter_configs, alter.AlterConfigsRequest([resource]), broker)
    return int(answer.responses[0].error_code)


async def set_one(broker: Broker) -> int:
    resource = incremental.AlterConfigsResource(
        TOPIC, NAME, [incremental.AlterableConfig("retention.ms", 0, "5")]
    )
    request = incremental.IncrementalAlterConfigsRequest([resource])
    answer = await call(incremental_alter_configs, request, broker)
    return int(answer.responses[0].error_code)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (produced, ErrorCode.INVALID_TOPIC_EXCEPTION),
        (made, ErrorCode.TOPIC_ALREADY_EXISTS),
        (made_another, ErrorCode.INVALID_TOPIC_EXCEPTION),
        (grown, ErrorCode.INVALID_TOPIC_EXCEPTION),
        (deleted, ErrorCode.INVALID_TOPIC_EXCEPTION),
        (emptied, ErrorCode.INVALID_TOPIC_EXCEPTION),
        (altered, ErrorCode.INVALID_TOPIC_EXCEPTION),
        (set_one, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
def test_it_cannot_be_made_written_or_changed(
    tmp_path: Path, change: Any, code: ErrorCode
) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            before = await described(broker, NAME)
            assert await change(broker) == code
            assert await described(broker, NAME) == before

    run(scenario)
