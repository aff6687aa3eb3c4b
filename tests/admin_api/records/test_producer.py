"""The shared producer, on a real broker and on none."""

import ctypes
import logging
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from admin_api.lake import Lake
from admin_api.records.producer import Outgoing, RecordProducer
from tests.crash.workload import create_topic
from tests.support.between import Between
from tests.support.confluent import read
from tests.support.patience import IDLE_S
from tests.support.ports import nobody
from tests.support.process import BrokerPart
from tests.support.tables import Writer


def outgoing(topic, value, partition=None, key=None):
    return Outgoing(topic, partition, key, value, [("h", b"1"), ("n", None)], 1000)


def test_records_of_a_partition_keep_their_order(plane):
    plane.create("ordered")
    producer = RecordProducer(plane.bootstrap, IDLE_S)
    sent = [producer.send(outgoing("ordered", b"%d" % n)) for n in range(50)]
    offsets = [one.result(IDLE_S).offset for one in sent]
    producer.close()
    assert offsets == list(range(50))
    found = read(plane.bootstrap, "ordered", 50)
    assert [one.value() for one in found] == [b"%d" % n for n in range(50)]
    assert found[0].headers() == [("h", b"1"), ("n", None)]
    assert found[0].timestamp()[1] == 1000


def test_small_records_are_taken_where_a_topic_takes_no_large_batches(plane):
    plane.create("narrow", **{"max.message.bytes": "20000"})
    producer = RecordProducer(plane.bootstrap, IDLE_S)
    sent = [producer.send(outgoing("narrow", b"." * 1000)) for _ in range(500)]
    offsets = [one.result(IDLE_S).offset for one in sent]
    producer.close()
    assert offsets == list(range(500))


def test_a_key_chooses_the_partition_as_in_java(plane):
    plane.create("keyed", 8)
    producer = RecordProducer(plane.bootstrap, IDLE_S)
    sent = [
        producer.send(outgoing("keyed", b"", key=key)) for key in (b"21", b"foobar")
    ]
    found = [one.result(IDLE_S).partition for one in sent]
    producer.close()
    # murmur2, positive, modulo 8: -973932308 and -790332482, as in Kafka's UtilsTest
    assert found == [(-973932308 & 0x7FFFFFFF) % 8, (-790332482 & 0x7FFFFFFF) % 8]


def test_without_a_broker_a_record_fails_in_its_time():
    with nobody() as address:
        producer = RecordProducer(address, 0.5)
        with pytest.raises(KafkaException):
            producer.send(outgoing("t", b"")).result(IDLE_S)
        producer.close()


def test_a_topic_that_is_not_there_is_not_made(plane):
    producer = RecordProducer(plane.bootstrap, IDLE_S)
    with pytest.raises(KafkaException) as caught:
        producer.send(outgoing("never-made", b"")).result(IDLE_S)
    producer.close()
    unknown = (KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_OR_PART)
    assert caught.value.args[0].code() in unknown
    assert "never-made" not in plane.get(f"{plane.cluster}/topics").text


def test_a_record_that_was_not_confirmed_in_time_may_have_been_written(plane):
    """The broker hangs when it comes, and writes it when it goes on."""
    plane.create("late")
    producer = RecordProducer(plane.bootstrap, 2.0)
    try:
        first = placed(lambda: producer.send(outgoing("late", b"first")))
        plane.broker.process.send_signal(signal.SIGSTOP)
        try:
            with pytest.raises(KafkaException, match="may have been written") as caught:
                producer.send(outgoing("late", b"second")).result(IDLE_S)
        finally:
            plane.broker.go_on()
    finally:
        producer.close()
    assert caught.value.args[0].code() == KafkaError._MSG_TIMED_OUT
    found = read(plane.bootstrap, "late", first.offset + 2)
    assert found[-1].value() == b"second"


def placed(send):
    """The first record that the broker confirms in the producer's time."""
    while True:
        with suppress(KafkaException):
            return send().result(IDLE_S)


def test_what_goes_with_a_late_record_is_not_written_twice(tmp_path):
    """librdkafka would send it again under another epoch, and report it once."""
    broker = BrokerPart(tmp_path / "data")
    between = Between(broker.listener)
    broker.arguments += ["--advertised", between.address]
    broker.start()
    create_topic(between.address, "t", 2)
    producer = RecordProducer(between.address, 4.0)
    try:
        for number in range(2):
            producer.send(outgoing("t", b"first", number)).result(IDLE_S)
        between.hears.clear()
        late = producer.send(outgoing("t", b"late", 0))
        time.sleep(2)  # else these are late as well, and nothing is shown
        young = [producer.send(outgoing("t", b"%d" % n, 1)) for n in range(3)]
        with pytest.raises(KafkaException, match="may have been written"):
            late.result(IDLE_S)
        between.cut()
        for one in young:
            with pytest.raises(
                KafkaException, match=r"not known|may have been written"
            ):
                one.result(IDLE_S)
        last = [producer.send(outgoing("t", b"last", n)) for n in range(2)]
        count = sum(one.result(IDLE_S).offset + 1 for one in last)
        found = [one.value() for one in read(between.address, "t", count, 2)]
    finally:
        producer.close()
        broker.end()
        between.close()
    assert sorted(found) == sorted(
        [b"first", b"first", b"late", b"0", b"1", b"2", b"last", b"last"]
    )


def test_a_topic_that_takes_no_records_takes_no_others_with_its_late_ones(
    tmp_path,
):
    broker = BrokerPart(tmp_path / "data")
    broker.start()
    for topic in ("unreadable", "well"):
        create_topic(broker.bootstrap, topic, 1)
    broker.stop()
    topic_id = Lake(broker.data_dir).topic("unreadable").id.hex()
    writer = Writer(str(broker.data_dir / "tables"), "unreadable", topic_id)
    writer.add(0, 0, 10)
    for entry in Path(writer.path, "_delta_log").glob("*.json"):
        entry.write_text("{")  # nobody knows where it ends: its records wait
    broker.start()
    producer = RecordProducer(broker.bootstrap, 3.0)
    try:
        late = producer.send(outgoing("unreadable", b"", 0))
        others = [producer.send(outgoing("well", b"", 0)) for _ in range(100)]
        while not late.done():
            others.pop(0).result(IDLE_S)
            others.append(producer.send(outgoing("well", b"", 0)))
        for one in others:
            one.result(IDLE_S)
        with pytest.raises(KafkaException, match="may have been written"):
            late.result()
    finally:
        producer.close()
        broker.end()


class Resending:
    """A producer with two records on their way, of which the first fails, and whose
    connection is lost: it sends the other one again, and hears that it is there."""

    def __init__(self, config, events):
        self._log, self._events = config["logger"].log, events
        self._taken, self._is_purged = [], False

    def produce(self, *_args, on_delivery, **_more):
        self._taken.append(on_delivery)

    def poll(self, timeout_s):
        if len(self._taken) < 2 or not self._events:
            time.sleep(timeout_s / 10)
            return
        for event in self._events.pop(0):
            getattr(self, event)()

    def fails(self):
        self._taken[0](KafkaError(KafkaError.MSG_SIZE_TOO_LARGE), None)

    def is_late(self):
        self._taken[0](KafkaError(KafkaError._MSG_TIMED_OUT), None)

    def loses(self):
        text = "[thrd:a:1/1]: a:1/1: Broker changed state UP -> DOWN"
        self._log(logging.DEBUG, "%s [%s] %s", "STATE", "rdkafka#producer-1", text)

    def delivers(self):
        if not self._is_purged:
            self._taken[1](None, Placed())

    def purge(self):
        self._is_purged = True
        self._taken[1](KafkaError(KafkaError._PURGE_INFLIGHT), None)

    def flush(self):
        pass


class Placed:
    """A record that is there."""

    def partition(self):
        return 0

    def offset(self):
        return 7

    def timestamp(self):
        return 1, 1000


def ended(events):
    """What is reported of the second record, when its producer tells so, in turns."""
    producer = RecordProducer("", 10.0, lambda config: Resending(config, events))
    failed, other = [producer.send(outgoing("t", b"", n)) for n in range(2)]
    try:
        with pytest.raises(KafkaException):
            failed.result(IDLE_S)
        return other.exception(IDLE_S)
    finally:
        producer.close()


@pytest.mark.parametrize(
    "events",
    [
        [["loses", "is_late"], ["delivers"]],
        [["is_late", "loses"], ["delivers"]],
        [["loses"], ["is_late"], ["delivers"]],
        [["is_late"], ["loses"], ["delivers"]],
    ],
)
def test_what_was_on_its_way_when_a_connection_was_lost_goes_with_a_late_record(events):
    """A lost connection is what shows librdkafka that a record is late, perhaps: then
    it takes the new epoch, and sends all that was not answered once more under that."""
    assert "is there is not known" in str(ended(events))


@pytest.mark.parametrize(
    "events",
    [
        [["loses", "fails"], ["delivers"]],
        [["fails"], ["loses"], ["delivers"]],
        [["loses", "is_late", "delivers"]],
        [["is_late", "loses", "delivers"]],
    ],
)
def test_what_may_have_been_sent_again_under_another_epoch_is_reported_so(events):
    """The last two: all of it came while the thread of the reports was busy."""
    assert "perhaps twice" in str(ended(events))


@pytest.mark.parametrize(
    "events",
    [
        [["fails"], ["delivers"]],
        [["is_late"], ["delivers"]],
        [["loses"], ["delivers"], ["fails"]],
        [["fails", "delivers"], ["loses"]],
    ],
)
def test_a_record_that_fails_is_no_concern_of_others_whose_connection_holds(events):
    assert ended(events) is None


def test_who_is_written_twice_after_a_refused_record_is_told_so(tmp_path):
    """librdkafka takes the new epoch once the others are answered, or sent again."""
    broker = BrokerPart(tmp_path / "data")
    between = Between(broker.listener)
    broker.arguments += ["--advertised", between.address]
    broker.start()
    create_topic(between.address, "well", 1)
    create_topic(between.address, "refused", 1, {"max.message.bytes": "1000"})
    producer = RecordProducer(between.address, IDLE_S)
    try:
        for topic in ("well", "refused"):
            producer.send(outgoing(topic, b"first", 0)).result(IDLE_S)
        between.hears.clear()
        refused = producer.send(outgoing("refused", b"." * 1000, 0))
        time.sleep(1)  # else both are answered together, and nothing is shown
        well = producer.send(outgoing("well", b"kept back", 0))
        time.sleep(1)  # else it was not written before
        between.hear_once()
        with pytest.raises(KafkaException, match="too large"):
            refused.result(IDLE_S)
        between.cut()
        report = str(well.exception(IDLE_S))
        end = producer.send(outgoing("well", b"last", 0)).result(IDLE_S).offset + 1
        found = [one.value() for one in read(between.address, "well", end)]
    finally:
        producer.close()
        broker.end()
        between.close()
    assert found.count(b"kept back") == 1 or "perhaps twice" in report


class Dead:
    """A producer that took one record and then failed for good."""

    def __init__(self):
        self.taken, self.polled = [], []

    def produce(self, *_args, on_delivery, **_more):
        if self.taken:
            raise KafkaException(KafkaError(KafkaError._FATAL, "fenced", fatal=True))
        self.taken.append(on_delivery)

    def poll(self, _timeout_s):
        pass

    def purge(self):
        self.polled += self.taken

    def flush(self, _timeout_s=None):
        for on_delivery in self.polled:
            on_delivery(KafkaError(KafkaError._PURGE_QUEUE), None)


def test_a_producer_that_failed_for_good_gives_way_to_a_new_one(plane):
    plane.create("renewed")
    made = [Dead()]
    producer = RecordProducer(
        plane.bootstrap, IDLE_S, lambda config: made.pop() if made else Producer(config)
    )
    lost = producer.send(outgoing("renewed", b"a"))
    kept = producer.send(outgoing("renewed", b"b"))
    assert kept.result(IDLE_S).offset == 0
    with pytest.raises(KafkaException):
        lost.result(IDLE_S)
    producer.close()


def test_what_is_given_up_fails_at_once_and_in_words():
    with nobody() as address:
        producer = RecordProducer(address, IDLE_S)
        sent = producer.send(outgoing("t", b""))
        producer.give_up()
        with pytest.raises(KafkaException, match="given up before the broker"):
            sent.result(IDLE_S)
        producer.close()


class Repeating:
    """Makes producers whose broker, librdkafka's own, has had all of the batches that
    they send before, and does not know where any more."""

    DUPLICATE_SEQUENCE_NUMBER = 46
    PRODUCE = 0
    OF_A_PRODUCER = 16
    """Where the object has librdkafka's handle: behind its head."""

    def __init__(self):
        with open("/proc/self/maps") as mapped:
            [path, *_] = {line.split()[-1] for line in mapped if "librdkafka" in line}
        self._library = ctypes.CDLL(path)

    def __call__(self, config):
        producer = Producer(
            config | {"test.mock.num.brokers": 1, "allow.auto.create.topics": True}
        )
        at = ctypes.c_void_p.from_address(id(producer) + self.OF_A_PRODUCER)
        cluster_of = self._library.rd_kafka_handle_mock_cluster
        cluster_of.restype = ctypes.c_void_p
        self._library.rd_kafka_mock_push_request_errors(
            ctypes.c_void_p(cluster_of(at)),
            ctypes.c_int16(self.PRODUCE),
            ctypes.c_size_t(1),
            ctypes.c_int(self.DUPLICATE_SEQUENCE_NUMBER),
        )
        return producer


def test_a_record_that_the_broker_had_already_is_delivered(plane, monkeypatch):
    """Who reports it says -1 for its offset, as Java's producer does."""
    plane.create("repeated")
    producer = RecordProducer(plane.bootstrap, IDLE_S, Repeating())
    monkeypatch.setitem(plane.app.state._state, "producer", producer)
    record = {"partition_id": 0, "value": {"type": "STRING", "data": "v"}}
    url = f"{plane.cluster}/topics/repeated/records"
    answers = [plane.post(url, record) for _ in range(2)]
    producer.close()
    assert [one.status_code for one in answers] == [200, 200], answers[0].text
    assert [one.json()["error_code"] for one in answers] == [200, 200]
    assert [one.json()["offset"] for one in answers] == [-1, 0]


def test_a_producer_that_sent_nothing_has_no_thread():
    before = set(threading.enumerate())  # some of others may end meanwhile
    RecordProducer("127.0.0.1:1", 0.5).close()
    assert set(threading.enumerate()) <= before


def test_who_waits_no_more_leaves_the_reports_of_others_as_they_are(plane):
    plane.create("left")
    producer = RecordProducer(plane.bootstrap, IDLE_S)
    first = producer.send(outgoing("left", b"a"))
    first.cancel()
    second = producer.send(outgoing("left", b"b"))
    assert second.result(IDLE_S).offset == 1
    assert producer.send(outgoing("left", b"c")).result(IDLE_S).offset == 2
    producer.close()
