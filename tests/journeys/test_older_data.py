"""A data directory that an older version wrote is opened and goes on.

``support/data/form-1.tar.gz`` was written by the first version, ``form-2.tar.gz`` by
the second, ``form-3.tar.gz`` by the third: the topic ``orders`` has 360 records in
three partitions, the first 100 offsets of each in the table and the last 20 in a
segment that a ``kill -9`` left open; ``trimmed`` had its first seven records deleted;
group ``readers`` committed 50 and 100 in the partitions 1 and 2.

The third has more. Small files of ``orders`` were merged in its table. ``ledger`` has
two committed transactions, ``c0`` to ``c4`` and ``c5`` and ``c6``, two aborted ones,
``a0`` to ``a2`` and ``a3``, of each kind the first below its table's end, and an open
one of the producer ``open``, ``o0`` and ``o1``. Group ``ledgers`` committed 30 of
``orders`` in the first of them, and 60 in the open one.
"""

import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.support.patience import IDLE_S
from tests.support.process import BrokerPart, lakelog
from tests.support.transactions import LEVELS, commit, transactional, values_of, write

COMMITTED, EVERYTHING = LEVELS
DATA = Path(__file__).parents[1] / "support" / "data"


FORMS = "form-1.tar.gz", "form-2.tar.gz", "form-3.tar.gz"


def _extracted(name: str, tmp_path: Path) -> Path:
    with tarfile.open(DATA / name) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "data"


@pytest.fixture(scope="module", params=FORMS)
def older(request, tmp_path_factory):
    """One broker on it for all of them; the last one writes and kills it."""
    tmp_path = tmp_path_factory.mktemp("older")
    _extracted(request.param, tmp_path)
    broker = BrokerPart(tmp_path / "data", "wal.segment_bytes=1048576")
    broker.start()
    yield broker
    broker.end()


def _read_all(broker, topic: str, ends: dict[int, int]) -> dict[int, list]:
    """{partition: [(offset, key, value, headers)]} of everything that is there."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "t"})
    found = {}
    for partition, end in ends.items():
        start, _ = consumer.get_watermark_offsets(TopicPartition(topic, partition))
        consumer.assign([TopicPartition(topic, partition, start)])
        rows = found[partition] = []
        while not rows or rows[-1][0] < end - 1:
            message = consumer.poll(IDLE_S)
            assert message is not None, f"{topic}-{partition} stops behind {rows[-1:]}"
            assert message.error() is None, message.error()
            row = message.offset(), message.key(), message.value(), message.headers()
            rows.append(row)
    consumer.close()
    return found


def _expected(partition: int, count: int) -> list:
    numbers = range(partition, count * 3, 3)
    return [
        (at, b"k%d" % n, b"v%d" % n, [("n", b"%d" % n)]) for at, n in enumerate(numbers)
    ]


def test_every_record_is_where_it_was(older):
    found = _read_all(older, "orders", {0: 120, 1: 120, 2: 120})
    assert found == {partition: _expected(partition, 120) for partition in range(3)}


def test_deleted_records_stay_deleted(older):
    [rows] = _read_all(older, "trimmed", {0: 20}).values()
    assert [(row[0], row[2]) for row in rows] == [(n, b"t%d" % n) for n in range(7, 20)]


def test_groups_stand_where_they_committed(older):
    consumer = Consumer({"bootstrap.servers": older.bootstrap, "group.id": "readers"})
    asked = [TopicPartition("orders", partition) for partition in range(3)]
    committed = [one.offset for one in consumer.committed(asked, timeout=IDLE_S)]
    consumer.close()
    assert committed == [-1001, 50, 100]


def test_it_is_found_whole(older):
    lakelog("check", "--data-dir", str(older.data_dir))


def test_it_takes_records_and_goes_on_after_a_kill(older):
    producer = Producer(
        {"bootstrap.servers": older.bootstrap, "enable.idempotence": True}
    )
    producer.produce("orders", b"v360", b"k360", partition=0, headers={"n": "360"})
    assert producer.flush(IDLE_S) == 0
    older.kill()
    older.start()
    found = _read_all(older, "orders", {0: 121, 1: 120, 2: 120})
    assert found[0] == _expected(0, 121)


def test_the_third_form_is_what_it_is_kept_for(tmp_path):
    data = _extracted("form-3.tar.gz", tmp_path)
    assert (data / "VERSION").read_text() == "3\n"
    with closing(sqlite3.connect(data / "catalog.db")) as catalog:
        query = "SELECT value FROM about WHERE key = 'schema_version'"
        assert catalog.execute(query).fetchone() == ("4",)
    log = data / "tables" / "orders" / "_delta_log"
    assert any("LAKELOG MERGE" in file.read_text() for file in log.glob("*.json"))


def test_where_released_records_end_is_noted_by_the_first_start(tmp_path):
    """And a start that has neither checkpoint nor table knows it."""
    data = _extracted("form-3.tar.gz", tmp_path)
    broker = BrokerPart(data, "wal.segment_bytes=1048576")
    broker.start()
    broker.end()
    with closing(sqlite3.connect(data / "catalog.db")) as catalog:
        query = (
            "SELECT partition, end_offset FROM released_ends "
            "JOIN topics ON topic_number = number WHERE name = 'orders'"
        )
        assert dict(catalog.execute(query)) == {0: 100, 1: 100, 2: 100}
    (data / "wal" / "checkpoint").unlink()
    for segment in (data / "wal").glob("segment-*"):
        segment.unlink()
    (data / "tables" / "orders").rename(data / "elsewhere")
    broker.start()
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    told = []
    producer.produce(
        "orders", b"x", partition=1, on_delivery=lambda *of: told.append(of)
    )
    assert producer.flush(IDLE_S) == 0
    [(error, message)] = told
    assert (error, message.offset()) == (None, 100)
    broker.end()


def test_transactions_stand_where_they_stood_and_go_on(tmp_path):
    data = _extracted("form-3.tar.gz", tmp_path)
    broker = BrokerPart(data, "wal.segment_bytes=1048576")
    broker.start()
    committed = [b"c%d" % n for n in range(7)]
    others = [b"a3", b"o0", b"o1"]  # what was aborted goes into no table
    address = broker.bootstrap
    assert values_of(address, "ledger", EVERYTHING) == sorted(committed + others)
    producer = transactional(address, "open")  # whose transaction is aborted by this
    assert values_of(address, "ledger", COMMITTED) == committed
    consumer = Consumer({"bootstrap.servers": address, "group.id": "ledgers"})
    orders = TopicPartition("orders", 0)
    assert consumer.committed([orders], IDLE_S)[0].offset == 30
    producer.begin_transaction()
    write(producer, "ledger", b"o2")
    orders.offset = 61
    member = consumer.consumer_group_metadata()
    producer.send_offsets_to_transaction([orders], member, IDLE_S)
    commit(producer)
    assert values_of(address, "ledger", COMMITTED) == [*committed, b"o2"]
    assert consumer.committed([orders], IDLE_S)[0].offset == 61
    consumer.close()
    broker.end()
    lakelog("check", "--data-dir", str(data))
