"""The shared producer, on a real broker and on none."""

import threading

import pytest
from confluent_kafka import KafkaException

from admin_api.records.producer import Outgoing, RecordProducer
from tests.support.confluent import read
from tests.support.patience import IDLE_S
from tests.support.ports import free_port


def outgoing(topic, value, partition=None, key=None):
    return Outgoing(topic, partition, key, value, [("h", b"1"), ("n", None)], 1000)


def test_records_of_a_partition_keep_their_order(plane):
    plane.create("ordered")
    producer = RecordProducer(plane.bootstrap, IDLE_S)
    sent = [producer.send(outgoing("ordered", b"%d" % n)) for n in range(50)]
    offsets = [one.result(IDLE_S).offset() for one in sent]
    producer.close()
    assert offsets == list(range(50))
    found = read(plane.bootstrap, "ordered", 50)
    assert [one.value() for one in found] == [b"%d" % n for n in range(50)]
    assert found[0].headers() == [("h", b"1"), ("n", None)]
    assert found[0].timestamp()[1] == 1000


def test_a_key_chooses_the_partition_as_in_java(plane):
    plane.create("keyed", 8)
    producer = RecordProducer(plane.bootstrap, IDLE_S)
    sent = [
        producer.send(outgoing("keyed", b"", key=key)) for key in (b"21", b"foobar")
    ]
    found = [one.result(IDLE_S).partition() for one in sent]
    producer.close()
    # murmur2, positive, modulo 8: -973932308 and -790332482, as in Kafka's UtilsTest
    assert found == [(-973932308 & 0x7FFFFFFF) % 8, (-790332482 & 0x7FFFFFFF) % 8]


def test_without_a_broker_a_record_fails_in_its_time():
    producer = RecordProducer(f"127.0.0.1:{free_port()}", 0.5)
    with pytest.raises(KafkaException):
        producer.send(outgoing("t", b"")).result(IDLE_S)
    producer.close()


def test_a_producer_that_sent_nothing_has_no_thread():
    before = threading.active_count()
    RecordProducer("127.0.0.1:1", 0.5).close()
    assert threading.active_count() == before
