"""The catalog is lost, under kill -9, and made again: clients go on, and tables do.

One ``lakelog up`` with a real Spark, before and after.
"""

import json
import time
from contextlib import closing

import pytest
from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from jobs.check import check_data_directory
from jobs.extent import Extents
from lakehouse.location import table_path
from tests.support.confluent import create, produce_all
from tests.support.patience import IDLE_S, STUCK_S, Patience, wait_until
from tests.support.process import WholePart, gone, lakelog, told
from tests.support.readers import by_deltalake

pytestmark = [
    pytest.mark.spark,
    pytest.mark.shared_out("tables", 4, whole=True),
]

SETTINGS = (
    "wal.keep_ms=0", "wal.idle_seal_ms=100", "lake.flush_ms=60000",
    "lake.flush_max_ms=60000", "lake.retention_check_ms=500",
    "lake.table_delete_delay_ms=500",
)  # fmt: skip
ORDERS, TRICKLE, GONE = "Orders", "trickle", "gone"
PARTITIONS = 2
BASE_MS = int(time.time() * 1000) - 60_000
START = 5
"""Records below it are deleted, of one partition."""


@pytest.fixture
def whole(tmp_path):
    part = WholePart(tmp_path / "data", *SETTINGS)
    part.start()
    part.hear("compactor ready")
    yield part
    part.end()


def read(bootstrap, topic, isolation="read_committed"):
    """(Partition, offset) -> (key, value) of all that a new consumer gets."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap, "group.id": "reader",
            "enable.auto.commit": False, "enable.partition.eof": True,
            "auto.offset.reset": "earliest", "isolation.level": isolation,
        }
    )  # fmt: skip
    consumer.assign([TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
    found, ended, patience = {}, set(), Patience()
    while len(ended) < PARTITIONS and patience.lasts(len(found)):
        message = consumer.poll(0.5)
        if message is None:
            continue
        if message.error() is not None:
            assert message.error().code() == KafkaError._PARTITION_EOF
            ended.add(message.partition())
            continue
        key = message.partition(), message.offset()
        assert key not in found
        found[key] = message.key(), message.value()
    consumer.close()
    assert len(ended) == PARTITIONS
    return found


def compact(whole, *topics):
    with closing(Extents(whole.data_dir)) as extents:
        extents.compact(list(topics), STUCK_S)


def by_time(bootstrap, topic, time_ms):
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "t"})
    asked = [TopicPartition(topic, index, time_ms) for index in range(PARTITIONS)]
    found = [one.offset for one in consumer.offsets_for_times(asked, IDLE_S)]
    consumer.close()
    return found


class Story:
    """What clients did, and what of it there must be."""

    def __init__(self, whole):
        self.whole, self.bootstrap = whole, whole.bootstrap
        self.idempotent = self.producer({"enable.idempotence": True})
        self.kept = {ORDERS: {}, TRICKLE: {}}
        self.sent = 0

    def producer(self, config):
        return Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 0} | config)

    def send(self, producer, topic, count, *, counts=True):
        """Records, known by where they were delivered."""

        def delivered(error, message):
            assert error is None, error
            if counts:
                key = message.partition(), message.offset()
                self.kept[topic][key] = message.key(), message.value()

        for _ in range(count):
            self.sent += 1
            value = b"%d" % self.sent
            producer.produce(
                topic, value, b"k", self.sent % PARTITIONS, on_delivery=delivered,
                timestamp=BASE_MS + self.sent,
            )  # fmt: skip
        assert producer.flush(STUCK_S) == 0

    def transact(self, topic, *, commit):
        producer = self.producer({"transactional.id": f"t-{topic}-{commit}"})
        producer.init_transactions(STUCK_S)
        producer.begin_transaction()
        self.send(producer, topic, 10, counts=commit is True)
        if commit is True:
            producer.commit_transaction(STUCK_S)
        elif commit is False:
            producer.abort_transaction(STUCK_S)
        return producer

    def delete_records(self, topic):
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        asked = [TopicPartition(topic, 0, START)]
        for done in admin.delete_records(asked).values():
            done.result(IDLE_S)
        kept = self.kept[topic]
        self.kept[topic] = {k: v for k, v in kept.items() if k >= (0, START)}

    def judge(self):
        for topic, kept in self.kept.items():
            assert read(self.bootstrap, topic) == kept


def begin(story):
    bootstrap = story.bootstrap
    create(bootstrap, ORDERS, PARTITIONS, **{"segment.bytes": "1048576"})
    create(bootstrap, TRICKLE, PARTITIONS)
    create(bootstrap, GONE, 1)
    produce_all(bootstrap, GONE, [(b"k", b"v", [], 0)])
    story.send(story.idempotent, ORDERS, 100)
    story.transact(ORDERS, commit=True)
    story.transact(ORDERS, commit=False)
    compact(story.whole, ORDERS, GONE)
    lakelog("topic", "delete", GONE, "--bootstrap", bootstrap)
    story.delete_records(ORDERS)
    story.send(story.idempotent, ORDERS, 20)
    story.send(story.producer({}), TRICKLE, 4)
    story.transact(TRICKLE, commit=True)
    story.judge()
    tables = story.whole.data_dir / "tables"
    wait_until(lambda: any(tables.glob(".deleted-*")), STUCK_S)
    wait_until(lambda: (tables / TRICKLE).exists(), STUCK_S)
    log = tables / "~orders" / "_delta_log"
    wait_until(
        lambda: any("lakelog.described" in e.read_text() for e in log.glob("*.json")),
        STUCK_S,
    )


def test_everybody_goes_on_behind_a_rebuilt_catalog(whole):
    story = Story(whole)
    begin(story)
    open_ = story.transact(TRICKLE, commit=None)
    ids = lakelog("topic", "list", "--bootstrap", story.bootstrap, "--json")
    parts = [one for found in whole.descendants().values() for one in found]
    whole.kill()
    assert gone(parts, STUCK_S)
    for path in whole.data_dir.glob("catalog.db*"):
        path.unlink()

    refused = told("broker", "--data-dir", str(whole.data_dir))
    assert refused.code == 1
    assert "lakelog rebuild" in refused.errors
    said = json.loads(lakelog("rebuild", "--data-dir", str(whole.data_dir), "--json"))
    topics = {one["topic"]: one for one in said["topics"]}
    assert {name for name, one in topics.items() if one["deleted"]} == {GONE}
    assert topics[ORDERS]["starts"] == {"0": START, "1": 0}
    assert topics[ORDERS]["configs"] == {"segment.bytes": "1048576"}
    assert len([one for one in said["remarks"] if "is aborted" in one]) == 1

    whole.start()
    whole.hear("compactor ready")
    after = lakelog("topic", "list", "--bootstrap", story.bootstrap, "--json")
    assert GONE not in after
    assert {one["topic"] for one in json.loads(after)} <= {
        one["topic"] for one in json.loads(ids)
    }
    story.judge()
    assert by_time(story.bootstrap, ORDERS, BASE_MS) == [START, 0]
    with pytest.raises(KafkaException):
        open_.commit_transaction(IDLE_S)
    story.send(story.idempotent, ORDERS, 20)
    story.send(story.producer({"enable.idempotence": True}), ORDERS, 20)
    story.transact(ORDERS, commit=True)
    story.transact(TRICKLE, commit=False)
    story.judge()
    compact(whole, ORDERS, TRICKLE)
    story.judge()
    for topic, kept in story.kept.items():
        rows = by_deltalake(table_path(str(whole.data_dir / "tables"), topic))
        places = [(row[0], row[1]) for row in rows]
        assert len(places) == len(set(places))
        assert {place for place in places if place >= min(kept)} == set(kept)
    assert check_data_directory(whole.data_dir).problems == []
