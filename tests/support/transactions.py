"""What tests of transactions do with librdkafka: write, end, read at both levels."""

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)

from tests.support.patience import IDLE_S, Patience

LEVELS = ("read_committed", "read_uncommitted")


def transactional(bootstrap: str, name: str, **config: object) -> Producer:
    """A producer that has its epoch."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": name,
            "linger.ms": 1,
            "transaction.timeout.ms": 60_000,
        }
        | config
    )
    producer.init_transactions(IDLE_S)
    return producer


def write(producer: Producer, topic: str, *values: bytes, partitions: int = 1) -> None:
    """Records of the transaction that is open are durable."""
    refused = []
    for number, value in enumerate(values):
        producer.produce(
            topic,
            value,
            partition=number % partitions,
            on_delivery=lambda error, _: error and refused.append(error),
        )
    assert producer.flush(IDLE_S) == 0
    assert not refused, refused


def commit(producer: Producer) -> None:
    """Commit, and ask again while the broker is not there."""
    patience = Patience()
    while (refused := _refusal(producer)) is not None:
        assert refused.retriable(), refused
        assert patience.lasts(), refused


def _refusal(producer: Producer) -> KafkaError | None:
    try:
        producer.commit_transaction(IDLE_S)
    except KafkaException as error:
        return error.args[0]
    return None


def read_all(bootstrap: str, topic: str, level: str, partitions: int = 1) -> list:
    """Every message of a topic up to where it ends now for readers of this level."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reads",
            "enable.auto.commit": False,
            "isolation.level": level,
            "enable.partition.eof": True,
        }
    )
    parts = [TopicPartition(topic, n, OFFSET_BEGINNING) for n in range(partitions)]
    consumer.assign(parts)
    found, ended, patience = [], set(), Patience()
    while len(ended) < partitions and patience.lasts((len(found), len(ended))):
        for message in consumer.consume(1000, timeout=0.5):
            if message.error() is None:
                found.append(message)
            else:
                assert message.error().name() == "_PARTITION_EOF", message.error()
                ended.add(message.partition())
    consumer.close()
    assert len(ended) == partitions, "it never came to the end"
    return found


def values_of(bootstrap: str, topic: str, level: str, partitions: int = 1) -> list:
    """The values of ``read_all``, sorted."""
    found = read_all(bootstrap, topic, level, partitions)
    return sorted(message.value() for message in found)
