"""A table that keeps rows longer than the log: consumers begin where the log does."""

from pathlib import Path

from confluent_kafka import Consumer, KafkaError, TopicPartition

from broker.catalog import topics as catalog_topics
from tests.jobs.world import WEEK, World, later, start_at
from tests.support.batches import Record
from tests.support.patience import IDLE_S
from tests.support.process import BrokerPart


def consumer_at(bootstrap: str, offset: int) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "g",
            "auto.offset.reset": "error",
        }
    )
    consumer.assign([TopicPartition("t", 0, offset)])
    return consumer


def test_consumers_below_the_logs_start_are_refused_and_the_table_has_the_rows(
    tmp_path: Path,
) -> None:
    (tmp_path / "data").mkdir()
    world = World(tmp_path / "data")
    topic = world.topic("t")
    configs = {"lake.retention.ms": "-1"}
    world.catalog.change(
        lambda c: catalog_topics.alter_configs(c, topic.number, configs)
    )
    compactor = world.compactor()
    world.produce(topic, [Record(b"k", b"%d" % i) for i in range(10)])
    world.flush(compactor)
    world.produce(topic, [Record(b"k", b"%d" % i) for i in range(10, 20)])
    world.flush(compactor)
    start_at(world, topic, 10)
    later(world, compactor, 2 * WEEK)
    world.release()
    world.close()
    part = BrokerPart(world.data_dir)
    part.start()
    try:
        below = consumer_at(part.bootstrap, 9)
        low, high = below.get_watermark_offsets(TopicPartition("t", 0), IDLE_S)
        assert (low, high) == (10, 20)
        refused = below.poll(IDLE_S)
        error = refused and refused.error()
        assert error
        assert error.code() == KafkaError._AUTO_OFFSET_RESET
        assert "out of range" in error.str().lower()
        below.close()
        consumer = consumer_at(part.bootstrap, 10)
        message = consumer.poll(IDLE_S)
        assert message is not None
        assert (message.offset(), message.value()) == (10, b"10")
        consumer.close()
    finally:
        part.end()
    assert [record.offset for record in world.rows(topic)] == list(range(20))
