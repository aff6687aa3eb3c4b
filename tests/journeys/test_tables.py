"""The whole of Lakelog with a real Spark: records in, tables, and the same records out.

One ``lakelog up`` and one analyst's Spark for all journeys here; the last ones kill it.
"""

import json
import time
from contextlib import closing, suppress
from itertools import chain

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as Place

from broker.status import file
from broker.status.schema import CompactorStatus
from broker.storage.segment import StaleSegment
from jobs.extent import Extents, TopicExtent
from tests.support.confluent import (
    CODECS,
    Member,
    create,
    held_to,
    produce_all,
    read,
)
from tests.support.patience import IDLE_S, STUCK_S, Patience, wait_until
from tests.support.process import BrokerPart, WholePart, gone, lakelog
from tests.support.readers import (
    by_aiokafka,
    by_deltalake,
    by_duckdb,
    by_kafka_python,
    by_polars,
    by_spark,
    consumed,
)

pytestmark = pytest.mark.spark

SETTINGS = (
    "wal.keep_ms=0",
    "wal.idle_seal_ms=100",
    "lake.flush_ms=1000",
    "lake.flush_max_ms=1000",
    "lake.follow_ms=50",
    "lake.retention_check_ms=500",
    "groups.initial_rebalance_delay_ms=100",
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory, analyst):
    part = WholePart(tmp_path_factory.mktemp("whole") / "data", *SETTINGS)
    part.start()
    part.hear("compactor ready")
    yield part
    part.end()


def table(whole, topic: str) -> TopicExtent:
    """What ``lakelog table`` tells, which one test asks as a program."""
    while True:
        with suppress(StaleSegment), closing(Extents(whole.data_dir)) as extents:
            return extents.of([topic])[0]


def compact(whole, *topics: str) -> None:
    """What ``lakelog compact`` does."""
    with closing(Extents(whole.data_dir)) as extents:
        extents.compact(topics, STUCK_S)


def release(whole, topic: str) -> None:
    """Until its records stand in the table alone."""
    compact(whole, topic)
    patience = Patience()
    while any(kept := [p.segment_bytes for p in table(whole, topic).partitions]):
        assert patience.lasts(kept), table(whole, topic)
        time.sleep(0.1)


UNUSUAL = "spark.databricks.delta.optimize.zorder.checkStatsCollection.enabled"
ODD = [
    (b"k", b"v" * 100, [("a", b"1"), ("a", b"2"), ("empty", b"")], 0),
    (None, b"no key", None, 0),
    (b"", b"", [("null", None), ("", b"x")], 0),
    (b"tombstone", None, None, 0),
    (bytes(range(256)), bytes(range(256)) * 40, [("bytes", bytes(range(256)))], 0),
    (None, None, [], 0),
]


@pytest.fixture(scope="module")
def journey(whole):
    """A topic of every codec and every odd record; its name, and what it gave hot."""
    create(whole.bootstrap, "journey")
    for codec in CODECS:
        more = [(b"%d" % i, b"value-%d " % i * 20, None, 0) for i in range(300)]
        produce_all(
            whole.bootstrap, "journey", ODD + more, **{"compression.type": codec}
        )
    hot = consumed(whole.bootstrap, "journey")
    assert len(hot) == len(CODECS) * (300 + len(ODD))
    return "journey", hot


def test_what_was_let_go_comes_back_out_of_the_table(whole, journey):
    topic, hot = journey
    wanted = [(key, value, headers or []) for key, value, headers, _ in ODD]
    first = [(r[4], r[5], [tuple(h) for h in r[6]]) for r in hot[: len(ODD)]]
    assert first == wanted
    release(whole, topic)
    assert consumed(whole.bootstrap, topic) == hot
    assert by_aiokafka(whole.bootstrap, topic, len(hot)) == hot
    assert by_kafka_python(whole.bootstrap, topic, len(hot)) == hot


def test_clients_of_every_age_read_the_same_out_of_the_table(whole, journey):
    topic, hot = journey
    release(whole, topic)
    old = by_kafka_python(whole.bootstrap, topic, len(hot), (0, 10, 0))
    assert old == [(*row[:6], []) for row in hot]  # they know no headers
    older = by_kafka_python(whole.bootstrap, topic, len(hot), (0, 8, 2))
    assert [(row[1], row[4], row[5]) for row in older] == [
        (row[1], row[4], row[5]) for row in hot
    ]


OLD_CODECS = CODECS[:-1]  # zstd came later
AGES = [(0, 8, 2), (0, 9, 0), (0, 10, 0)]
NULLS = None, None  # kafka-python sends no such record


@pytest.fixture(scope="module")
def aged(whole):
    """A topic that clients of each age wrote with each of their codecs; its name, and
    what each age read of it while it was hot."""
    topic = "aged"
    create(whole.bootstrap, topic)
    rows = [(key, value, None, 0) for key, value, _, _ in ODD if (key, value) != NULLS]
    rows += [(b"%d" % i, b"value-%d " % i * 20, None, 0) for i in range(50)]
    for age in AGES:
        for codec in OLD_CODECS:
            name = None if codec == "none" else codec
            producer = KafkaProducer(
                bootstrap_servers=whole.bootstrap,
                api_version=age,
                compression_type=name,
                linger_ms=50,
            )
            for key, value, _, partition in rows:
                producer.send(topic, value, key, partition=partition)
            producer.flush()
            producer.close()
            held = held_to(".".join(map(str, age))) | {"compression.type": codec}
            produce_all(whole.bootstrap, topic, rows, **held)
    hot = read_by_each_age(whole.bootstrap, topic, len(rows) * 2 * 12)
    written = [(key, value) for key, value, _, _ in rows] * 2 * 12
    for found in hot:
        assert [(one[1], *one[4:6]) for one in found] == [
            (offset, *row) for offset, row in enumerate(written)
        ]
    return topic, hot


def read_by_each_age(bootstrap: str, topic: str, count: int) -> list[list[tuple]]:
    """All records, as librdkafka and kafka-python of each age, and today, read them."""
    found = [
        consumed(bootstrap, topic, **held_to(".".join(map(str, age)))) for age in AGES
    ]
    found += [by_kafka_python(bootstrap, topic, count, age) for age in (*AGES, None)]
    return [*found, consumed(bootstrap, topic)]


def test_what_clients_of_every_age_wrote_is_read_out_of_the_table(whole, aged):
    topic, hot = aged
    release(whole, topic)
    assert read_by_each_age(whole.bootstrap, topic, len(hot[0])) == hot
    newest = hot[-2]  # they know all that there is to know
    assert by_deltalake(table(whole, topic).path) == newest
    assert {one[2] == -1 for one in newest} == {True, False}  # 0.8 and 0.9 knew no time


def test_any_delta_reader_sees_the_same(whole, analyst, journey):
    topic, hot = journey
    compact(whole, topic)
    path = table(whole, topic).path
    assert by_spark(analyst, path) == hot
    assert by_deltalake(path) == hot
    assert by_duckdb(path) == hot
    assert by_polars(path) == hot


def test_a_table_explains_itself(whole, analyst, journey):
    topic, hot = journey
    where = ("--data-dir", str(whole.data_dir))
    lakelog("compact", topic, *where, "--timeout", "600")
    found = json.loads(lakelog("table", topic, *where, "--json"))
    properties = dict(analyst.ask(f"SHOW TBLPROPERTIES delta.`{found['path']}`"))
    assert properties["lakelog.topic"] == topic
    assert properties["delta.minReaderVersion"] == "1"
    assert properties["delta.minWriterVersion"] == "2"
    [part] = found["partitions"]
    assert part["table_end"] == part["high_watermark"] == len(hot)


def test_consumers_see_what_its_owner_left(whole, analyst, journey):
    """DELETE makes gaps, OPTIMIZE another order; the end is reached all the same."""
    create(whole.bootstrap, "owned", 2)
    records = [(b"%d" % i, b"v%d" % i, None, i % 2) for i in range(400)]
    produce_all(whole.bootstrap, "owned", records)
    compact(whole, "owned")
    produce_all(whole.bootstrap, "owned", [(b"late", b"l", None, n) for n in (0, 1)])
    release(whole, "owned")
    before = consumed(whole.bootstrap, "owned", 2)
    assert len(before) == 402
    path = table(whole, "owned").path
    forget = "partition = 0 AND (offset % 3 = 0 OR offset >= 190)"
    analyst.ask(f"DELETE FROM delta.`{path}` WHERE {forget}")
    left = [r for r in before if not (r[0] == 0 and (r[1] % 3 == 0 or r[1] >= 190))]
    wait_until(lambda: consumed(whole.bootstrap, "owned", 2) == left)
    analyst.ask(f"SET {UNUSUAL} = false")
    analyst.ask(f"OPTIMIZE delta.`{path}` ZORDER BY (value)")
    time.sleep(0.5)  # the broker looks at the table ten times meanwhile
    assert consumed(whole.bootstrap, "owned", 2) == left
    produce_all(whole.bootstrap, "owned", [(b"more", b"m", None, 0)])
    after = consumed(whole.bootstrap, "owned", 2)
    assert len(after) == len(left) + 1
    release(whole, "owned")
    assert consumed(whole.bootstrap, "owned", 2) == after
    assert by_spark(analyst, path) == after


def test_offsets_are_found_by_time_in_table_and_log(whole):
    create(whole.bootstrap, "times", **{"retention.ms": "-1"})
    producer = Producer({"bootstrap.servers": whole.bootstrap, "linger.ms": 0})

    def produce(*stamps: int) -> None:
        for stamp in stamps:
            producer.produce("times", b"x", partition=0, timestamp=stamp)
            producer.flush(IDLE_S)

    consumer = Consumer({"bootstrap.servers": whole.bootstrap, "group.id": "t"})

    def at(stamp: int) -> int:
        [found] = consumer.offsets_for_times([TopicPartition("times", 0, stamp)])
        return found.offset

    produce(1_000_000, 2_000_000, 5_000_000, 3_000_000)
    release(whole, "times")
    assert [at(t) for t in (1, 1_500_000, 2_500_000, 5_000_001)] == [0, 1, 2, -1]
    produce(6_000_000, 7_000_000)
    assert [at(t) for t in (1_500_000, 5_000_001, 6_500_000, 8_000_000)] == [
        1,
        4,
        5,
        -1,
    ]
    release(whole, "times")
    assert [at(t) for t in (1_500_000, 5_000_001, 6_500_000, 8_000_000)] == [
        1,
        4,
        5,
        -1,
    ]
    consumer.close()


def test_deleted_records_are_gone_from_log_and_table(whole, analyst):
    create(whole.bootstrap, "short")
    records = [(None, b"%d" % i, None, 0) for i in range(100)]
    produce_all(whole.bootstrap, "short", records)
    release(whole, "short")
    produce_all(whole.bootstrap, "short", records)
    admin = AdminClient({"bootstrap.servers": whole.bootstrap})
    for before in (60, 150):
        [future] = admin.delete_records([TopicPartition("short", 0, before)]).values()
        assert future.result(IDLE_S).low_watermark == before
        consumer = Consumer({"bootstrap.servers": whole.bootstrap, "group.id": "s"})
        part = TopicPartition("short", 0)
        assert consumer.get_watermark_offsets(part) == (before, 200)
        consumer.close()
    rest = read(whole.bootstrap, "short", 50)
    assert [message.offset() for message in rest] == list(range(150, 200))
    release(whole, "short")
    rest = read(whole.bootstrap, "short", 50)
    assert [message.offset() for message in rest] == list(range(150, 200))


def test_the_time_of_the_broker_is_kept_as_such(whole, analyst):
    stamped = {"message.timestamp.type": "LogAppendTime"}
    create(whole.bootstrap, "stamped", **stamped)
    records = [(None, b"%d" % i, None, 0) for i in range(10)]
    produce_all(whole.bootstrap, "stamped", records)
    hot = consumed(whole.bootstrap, "stamped")
    assert {record[3] for record in hot} == {1}
    release(whole, "stamped")
    assert consumed(whole.bootstrap, "stamped") == hot
    assert by_spark(analyst, table(whole, "stamped").path) == hot


def test_many_partitions_and_large_records_pass(whole):
    create(whole.bootstrap, "wide", 40, **{"max.message.bytes": "8000000"})
    large = bytes(range(256)) * 20_000
    records = [(None, b"%d" % i, None, i % 40) for i in range(400)]
    records += [(b"large", large, [("h", b"x" * 10_000)], n) for n in (0, 39)]
    big = {"message.max.bytes": 8_000_000}
    produce_all(whole.bootstrap, "wide", records, **big)
    hot = consumed(whole.bootstrap, "wide", 40)
    assert len(hot) == 402
    release(whole, "wide")
    assert consumed(whole.bootstrap, "wide", 40) == hot


def test_old_records_leave_the_table(whole, analyst):
    create(whole.bootstrap, "fading", **{"retention.ms": "3600000"})
    producer = Producer({"bootstrap.servers": whole.bootstrap, "linger.ms": 0})
    now_ms = int(time.time() * 1000)
    for age_ms in (86_400_000, 7_200_000):
        producer.produce("fading", b"old", partition=0, timestamp=now_ms - age_ms)
        producer.flush(IDLE_S)
    release(whole, "fading")
    producer.produce("fading", b"young", partition=0, timestamp=now_ms)
    producer.flush(IDLE_S)
    release(whole, "fading")
    wait_until(lambda: table(whole, "fading").partitions[0].log_start == 2)
    assert [record[5] for record in consumed(whole.bootstrap, "fading")] == [b"young"]
    path = table(whole, "fading").path
    wait_until(lambda: len(by_spark(analyst, path)) == 1)


def test_a_topic_of_the_same_name_starts_anew(whole):
    for value in (b"first life", b"second life"):
        create(whole.bootstrap, "again")
        produce_all(whole.bootstrap, "again", [(None, value, None, 0)])
        release(whole, "again")
        [record] = consumed(whole.bootstrap, "again")
        assert (record[1], record[5]) == (0, value)
        if value == b"first life":
            lakelog("topic", "delete", "again", "--bootstrap", whole.bootstrap)


def test_a_group_reads_on_across_compaction(whole):
    create(whole.bootstrap, "crossing")
    member = Member(whole.bootstrap, "crossing", "crossing")

    def go_on(first: int) -> None:
        values = [b"%d" % n for n in range(first, first + 50)]
        produce_all(whole.bootstrap, "crossing", [(None, v, None, 0) for v in values])

    def caught_up(count: int) -> bool:
        member.poll(0.1)
        return len(member.values) >= count

    go_on(0)
    wait_until(lambda: caught_up(50))  # read from memory
    go_on(50)
    release(whole, "crossing")
    go_on(100)
    wait_until(lambda: caught_up(150))  # from the table, then from memory
    release(whole, "crossing")
    go_on(150)
    wait_until(lambda: caught_up(200))
    assert member.values == [b"%d" % n for n in range(200)]
    member.consumer.commit(asynchronous=False)
    member.consumer.close()


def test_a_fetch_session_of_many_partitions_reads_on_across_compaction(whole):
    create(whole.bootstrap, "followed", partitions=60)
    consumer = KafkaConsumer(
        bootstrap_servers=whole.bootstrap, auto_offset_reset="earliest"
    )
    consumer.assign([Place("followed", index) for index in range(60)])
    values: list[bytes] = []

    def go_on(first: int) -> None:
        produce_all(
            whole.bootstrap,
            "followed",
            [(None, b"%d" % n, None, n % 60) for n in range(first, first + 180)],
        )

    def caught_up(count: int) -> bool:
        for batch in consumer.poll(100).values():
            values.extend(record.value for record in batch)
        return len(values) >= count

    with closing(consumer):
        go_on(0)
        wait_until(lambda: caught_up(180))  # from memory
        go_on(180)
        release(whole, "followed")
        go_on(360)
        wait_until(lambda: caught_up(540))  # from tables, then from memory
        release(whole, "followed")
        go_on(540)
        wait_until(lambda: caught_up(720))
        (handler,) = consumer._fetcher._session_handlers.values()
        assert handler.next_metadata.session_id > 0, "it goes by no session"
    assert sorted(map(int, values)) == list(range(720))


def restarts(whole):
    said = file.read(whole.data_dir, CompactorStatus, time.time())
    return said and said.counters["restarts_total"]


def test_a_compactor_that_is_killed_is_started_again(whole):
    create(whole.bootstrap, "killed")
    children = whole.descendants()
    [compactor] = children["compactor"]
    compactor.kill()
    produce_all(whole.bootstrap, "killed", [(None, b"x", None, 0)] * 10)
    whole.hear("compactor ready")
    assert "killed by SIGKILL" in whole.tail()
    wait_until(lambda: restarts(whole) == 1)
    assert gone(children["java"])
    release(whole, "killed")
    assert len(consumed(whole.bootstrap, "killed")) == 10


def test_nothing_outlives_a_lakelog_that_was_killed(whole, journey, aged):
    """Not even the JVM; and what it held is all there for the next one."""
    children = whole.descendants()
    assert {"admin", "broker", "compactor", "java"} <= children.keys()
    topic, hot = journey
    whole.kill()
    assert gone(chain(*children.values()))
    lakelog("check", "--data-dir", str(whole.data_dir))
    broker = BrokerPart(whole.data_dir, *SETTINGS)
    broker.start()
    assert consumed(broker.bootstrap, topic) == hot
    topic, by_age = aged
    assert read_by_each_age(broker.bootstrap, topic, len(by_age[0])) == by_age
    assert broker.stop() == 0
