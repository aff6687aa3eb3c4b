"""Transactions of unmodified clients across what happens to a broker and its tables."""

import time
from contextlib import closing, suppress

import pytest
from confluent_kafka import KafkaException

from broker.storage.segment import StaleSegment
from jobs.extent import Extents, TopicExtent
from tests.support.confluent import create
from tests.support.patience import IDLE_S, STUCK_S, Patience, wait_until
from tests.support.process import BrokerPart, WholePart
from tests.support.readers import by_spark
from tests.support.transactions import (
    LEVELS,
    TransactionalLoad,
    commit,
    read_all,
    transactional,
    under_load,
    values_of,
    write,
    write_in_time_or_late,
)

COMMITTED, EVERYTHING = LEVELS
KILLS = 3


@pytest.mark.shared_out("restarts", 4)
def test_open_transactions_go_on_over_a_kill(tmp_path):
    broker = BrokerPart(tmp_path / "data")
    broker.start()
    create(broker.bootstrap, "t", 3)
    names = ("commits", "aborts", "leaves")
    producers = {name: transactional(broker.bootstrap, name) for name in names}
    for name, producer in producers.items():
        producer.begin_transaction()
        write(producer, "t", *(b"%s-%d" % (name.encode(), i) for i in range(6)),
              partitions=3)  # fmt: skip
    broker.kill()
    broker.start()
    assert values_of(broker.bootstrap, "t", COMMITTED, 3) == []
    assert len(values_of(broker.bootstrap, "t", EVERYTHING, 3)) == 18
    write(producers["commits"], "t", b"commits-6")
    commit(producers["commits"])
    producers["aborts"].abort_transaction(IDLE_S)
    successor = transactional(broker.bootstrap, "leaves")
    successor.begin_transaction()
    write(successor, "t", b"successor")
    commit(successor)
    wanted = sorted([*(b"commits-%d" % i for i in range(7)), b"successor"])
    assert values_of(broker.bootstrap, "t", COMMITTED, 3) == wanted
    broker.kill()
    broker.start()
    assert values_of(broker.bootstrap, "t", COMMITTED, 3) == wanted
    broker.stop()


@pytest.mark.shared_out("restarts", 4)
def test_a_transaction_whose_time_is_over_after_a_kill_is_aborted(tmp_path):
    broker = BrokerPart(tmp_path / "data")
    broker.start()
    create(broker.bootstrap, "t")
    short = {"transaction.timeout.ms": 2_000}
    producer = transactional(broker.bootstrap, "short", **short)
    producer.begin_transaction()
    write_in_time_or_late(producer, "t", b"open")
    broker.kill()
    broker.start()
    other = transactional(broker.bootstrap, "other")
    other.begin_transaction()
    write(other, "t", b"other")
    commit(other)
    wait_until(lambda: read_all(broker.bootstrap, "t", COMMITTED))
    assert values_of(broker.bootstrap, "t", COMMITTED) == [b"other"]
    with pytest.raises(KafkaException):
        producer.commit_transaction(IDLE_S)
    broker.stop()


@pytest.mark.shared_out("restarts", 4)
def test_kills_break_no_transaction(tmp_path):
    broker = BrokerPart(tmp_path / "data")
    broker.start()
    create(broker.bootstrap, "t", 3)
    loads = [TransactionalLoad(broker.bootstrap, "t", name, 3) for name in ("a", "b")]

    def some_more_are_kept() -> None:
        before = [len(load.kept) for load in loads]
        wait_until(lambda: sum(len(load.kept) for load in loads) > sum(before) + 3)

    with under_load(*loads):
        for _ in range(KILLS):
            some_more_are_kept()
            broker.kill()
            broker.start()
        some_more_are_kept()
    wanted = [value for load in loads for value in load.wanted()]
    assert values_of(broker.bootstrap, "t", COMMITTED, 3) == sorted(wanted)
    broker.stop()


TABLE_SETTINGS = (
    "wal.keep_ms=0",
    "wal.idle_seal_ms=100",
    "lake.flush_ms=500",
    "lake.flush_max_ms=500",
    "lake.follow_ms=50",
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    part = WholePart(tmp_path_factory.mktemp("whole") / "data", *TABLE_SETTINGS)
    part.start()
    part.hear("compactor ready")
    yield part
    part.end()


def table(whole, topic: str) -> TopicExtent:
    while True:
        with suppress(StaleSegment), closing(Extents(whole.data_dir)) as extents:
            return extents.of([topic])[0]


def release(whole, topic: str) -> None:
    """Until its records stand in the table alone."""
    with closing(Extents(whole.data_dir)) as extents:
        extents.compact([topic], STUCK_S)
    patience = Patience()
    while any(kept := [p.segment_bytes for p in table(whole, topic).partitions]):
        assert patience.lasts(kept), table(whole, topic)
        time.sleep(0.1)


@pytest.mark.spark
def test_committed_records_are_read_out_of_the_table(whole, analyst):
    create(whole.bootstrap, "tables", 2)
    producer = transactional(whole.bootstrap, "tables")
    kept = []
    for number in range(9):
        values = [b"%d-%d" % (number, i) for i in range(40)]
        producer.begin_transaction()
        write(producer, "tables", *values, partitions=2)
        if number % 3 == 1:
            producer.abort_transaction(IDLE_S)
        else:
            commit(producer)
            kept += values
    hot = read_all(whole.bootstrap, "tables", COMMITTED, 2)
    assert sorted(message.value() for message in hot) == sorted(kept)
    release(whole, "tables")

    def seen(messages):
        rows = [(m.partition(), m.offset(), m.value()) for m in messages]
        return sorted(rows)

    for level in LEVELS:
        cold = read_all(whole.bootstrap, "tables", level, 2)
        assert seen(cold) == seen(hot), "the table has nothing that was aborted"
    rows = by_spark(analyst, table(whole, "tables").path)
    assert [(row[0], row[1], row[5]) for row in rows] == seen(hot)


@pytest.mark.spark
def test_a_table_ends_before_a_transaction_that_is_open(whole, analyst):
    create(whole.bootstrap, "held")
    first, second = (transactional(whole.bootstrap, f"held-{n}") for n in "ab")
    first.begin_transaction()
    write(first, "held", b"before")
    commit(first)
    first.begin_transaction()
    write(first, "held", b"open")
    second.begin_transaction()
    write(second, "held", b"behind")
    commit(second)
    wait_until(lambda: table(whole, "held").partitions[0].table_end == 2)
    path = table(whole, "held").path
    assert [row[5] for row in by_spark(analyst, path)] == [b"before"]
    assert values_of(whole.bootstrap, "held", COMMITTED) == [b"before"]
    first.abort_transaction(IDLE_S)
    release(whole, "held")
    assert [row[5] for row in by_spark(analyst, path)] == [b"before", b"behind"]
    for level in LEVELS:
        assert values_of(whole.bootstrap, "held", level) == [b"before", b"behind"]
