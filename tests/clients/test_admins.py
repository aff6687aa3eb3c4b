"""The admin clients of three libraries: what an operator's scripts do."""

import asyncio

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewTopic as AioTopic
from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from kafka.admin import ConfigResource as PythonResource
from kafka.admin import ConfigResourceType, KafkaAdminClient
from kafka.admin import NewTopic as PythonTopic

from tests.support.confluent import Member, create, produce_all, until
from tests.support.patience import IDLE_S, STUCK_S


@pytest.fixture
def admin(broker):
    return AdminClient({"bootstrap.servers": broker.bootstrap})


def only(futures):
    [future] = futures.values()
    return future.result(IDLE_S)


def test_partitions_are_added_and_written(broker, topic, admin):
    create(broker.bootstrap, topic)
    only(admin.create_partitions([NewPartitions(topic, 5)]))
    produce_all(broker.bootstrap, topic, [(None, b"x", None, 4)])
    assert len(admin.list_topics(timeout=IDLE_S).topics[topic].partitions) == 5
    with pytest.raises(KafkaException, match="INVALID_PARTITIONS"):
        only(admin.create_partitions([NewPartitions(topic, 2)]))


def test_configs_are_described_changed_and_reset(broker, topic, admin):
    create(broker.bootstrap, topic, **{"retention.ms": "1000"})

    def configs():
        return only(admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]))

    def change(operation, name, value):
        entry = ConfigEntry(name, value, incremental_operation=operation)
        resource = ConfigResource(
            ResourceType.TOPIC, topic, incremental_configs=[entry]
        )
        only(admin.incremental_alter_configs([resource]))

    assert (configs()["retention.ms"].value, configs()["retention.ms"].is_default) == (
        "1000",
        False,
    )
    assert configs()["cleanup.policy"].value == "delete"
    change(AlterConfigOpType.APPEND, "cleanup.policy", "compact")
    assert configs()["cleanup.policy"].value == "delete,compact"
    change(AlterConfigOpType.SUBTRACT, "cleanup.policy", "compact")
    assert configs()["cleanup.policy"].value == "delete"
    change(AlterConfigOpType.DELETE, "retention.ms", None)
    assert configs()["retention.ms"].is_default
    with pytest.raises(KafkaException, match="INVALID_CONFIG"):
        change(AlterConfigOpType.SET, "retention.ms", "soon")


def test_the_configs_of_the_broker_are_told(admin):
    found = only(admin.describe_configs([ConfigResource(ResourceType.BROKER, "1")]))
    assert found["message.max.bytes"].value == "1048588"
    assert found["num.partitions"].value == "1"


def test_the_cluster_is_described(broker, admin):
    found = admin.describe_cluster().result(IDLE_S)
    assert [f"{node.host}:{node.port}" for node in found.nodes] == [broker.bootstrap]
    assert found.controller.id == found.nodes[0].id
    assert found.cluster_id == admin.list_topics(timeout=IDLE_S).cluster_id


def test_topics_are_described_with_their_ids(broker, topic, admin):
    from confluent_kafka import TopicCollection

    create(broker.bootstrap, topic, 2)
    found = only(admin.describe_topics(TopicCollection([topic])))
    assert [part.id for part in found.partitions] == [0, 1]
    first = str(found.topic_id)
    only(admin.delete_topics([topic]))
    create(broker.bootstrap, topic)
    assert str(only(admin.describe_topics(TopicCollection([topic]))).topic_id) != first


def test_ends_are_listed_and_records_deleted(broker, topic, admin):
    create(broker.bootstrap, topic)
    produce_all(broker.bootstrap, topic, [(None, b"%d" % i, None, 0) for i in range(9)])
    part = TopicPartition(topic, 0)

    def offset(spec):
        return only(admin.list_offsets({part: spec})).offset

    assert offset(OffsetSpec.latest()) == 9
    assert offset(OffsetSpec.max_timestamp()) in range(9)
    low = only(admin.delete_records([TopicPartition(topic, 0, 4)])).low_watermark
    assert low == offset(OffsetSpec.earliest()) == 4
    with pytest.raises(KafkaException, match="OFFSET_OUT_OF_RANGE"):
        only(admin.delete_records([TopicPartition(topic, 0, 99)]))


def test_groups_are_described_moved_and_deleted(broker, topic, admin):
    create(broker.bootstrap, topic)
    produce_all(broker.bootstrap, topic, [(None, b"x", None, 0)] * 5)
    member = Member(broker.bootstrap, topic, topic)
    until(lambda: len(member.values) == 5, [member])
    member.consumer.commit(asynchronous=False)
    found = only(admin.describe_consumer_groups([topic]))
    assert found.state.name == "STABLE"
    [one] = found.members
    assert [p.topic for p in one.assignment.topic_partitions] == [topic]
    with pytest.raises(KafkaException, match="NON_EMPTY_GROUP"):
        only(admin.delete_consumer_groups([topic]))
    member.consumer.close()

    def offsets():
        asked = [ConsumerGroupTopicPartitions(topic)]
        found = only(admin.list_consumer_group_offsets(asked))
        return [part.offset for part in found.topic_partitions]

    assert offsets() == [5]
    moved = ConsumerGroupTopicPartitions(topic, [TopicPartition(topic, 0, 2)])
    only(admin.alter_consumer_group_offsets([moved]))
    assert offsets() == [2]
    only(admin.delete_consumer_groups([topic]))
    assert topic not in [
        g.group_id for g in admin.list_consumer_groups().result(IDLE_S).valid
    ]


def test_kafka_pythons_admin(broker, topic):
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.create_topics([PythonTopic(topic, 2, 1, topic_configs={"retention.ms": "7"})])
    assert topic in admin.list_topics()
    [found] = admin.describe_topics([topic])
    assert len(found["partitions"]) == 2
    resource = PythonResource(ConfigResourceType.TOPIC, topic)
    assert "retention.ms" in str(admin.describe_configs([resource]))
    admin.create_partitions({topic: 3})
    [found] = admin.describe_topics([topic])
    assert len(found["partitions"]) == 3
    admin.delete_topics([topic])
    assert topic not in admin.list_topics()
    admin.close()


def test_aiokafkas_admin(broker, topic):
    async def story():
        admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
        await admin.start()
        await admin.create_topics([AioTopic(topic, 2, 1)])
        [found] = await admin.describe_topics([topic])
        assert len(found["partitions"]) == 2
        assert topic in await admin.list_topics()
        assert await admin.list_consumer_groups() is not None
        await admin.delete_topics([topic])
        assert topic not in await admin.list_topics()
        await admin.close()

    asyncio.run(asyncio.wait_for(story(), STUCK_S))


def test_a_topic_may_be_validated_without_being_created(broker, topic, admin):
    only(admin.create_topics([NewTopic(topic, 2)], validate_only=True))
    assert topic not in admin.list_topics(timeout=IDLE_S).topics
