"""Records out of a real consumer, up to each limit; and what errors come to."""

import threading

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from admin_api.problems import Problem
from admin_api.reading.filters import compile_filter
from admin_api.reading.gather import Limits, gather
from admin_api.reading.readers import Readers
from admin_api.reading.schemas import Ending
from broker.clock import SystemClock
from tests.support.clock import ManualClock
from tests.support.confluent import produce_all
from tests.support.patience import IDLE_S

PLENTY = Limits(1000, 1 << 30, int(IDLE_S * 1000))
EVERYTHING = compile_filter("")


@pytest.fixture(scope="module")
def consumer_of(plane):
    """Consumers of a topic with 20 records in each of two partitions."""
    plane.create("gathered", partitions=2)
    records = [(None, b"v%02d" % n, None, p) for p in (0, 1) for n in range(20)]
    produce_all(plane.bootstrap, "gathered", records)
    readers, made = Readers(plane.bootstrap), []

    def make(spans):
        places = [
            TopicPartition("gathered", p, start) for p, (start, _) in spans.items()
        ]
        made.append(readers._consumer(places))  # as a reader makes it
        return made[-1]

    yield make
    for consumer in made:
        consumer.close()


def gathered(consumer_of, spans, limits=PLENTY, wanted=EVERYTHING, stop=None):
    return gather(
        consumer_of(spans),
        stop or threading.Event(),
        "gathered",
        spans,
        limits,
        wanted,
        SystemClock().monotonic_ms,
    )


def places(found):
    return [(record.partition_id, record.offset) for record in found.records]


def test_the_spans_are_read_and_nothing_beside_them(consumer_of):
    found = gathered(consumer_of, {0: (3, 7), 1: (18, 20)})
    assert places(found) == [(0, 3), (0, 4), (0, 5), (0, 6), (1, 18), (1, 19)]
    assert found.positions == {0: 7, 1: 20}
    assert (found.ended_by, found.scanned) == (Ending.END, 6)


def test_a_limit_of_records_ends_it_and_it_goes_on_from_there(consumer_of):
    spans, seen = {0: (0, 20), 1: (0, 20)}, []
    while True:
        found = gathered(consumer_of, spans, Limits(7, 1 << 30, PLENTY.timeout_ms))
        seen += places(found)
        spans = {p: (found.positions[p], 20) for p in spans}
        if found.ended_by == Ending.END:
            break
        assert found.ended_by == Ending.RECORDS
        assert len(found.records) == 7
    assert sorted(seen) == [(p, n) for p in (0, 1) for n in range(20)]


def test_bytes_end_it_after_the_record_that_passes_them(consumer_of):
    found = gathered(consumer_of, {0: (0, 20)}, Limits(1000, 7, PLENTY.timeout_ms))
    assert (len(found.records), found.bytes) == (3, 9)
    assert (found.ended_by, found.positions) == (Ending.BYTES, {0: 3})


def test_a_filter_leaves_out_and_counts(consumer_of):
    wanted = compile_filter("value == 'v07' || offset > 18")
    found = gathered(consumer_of, {1: (0, 20)}, wanted=wanted)
    assert places(found) == [(1, 7), (1, 19)]
    assert found.scanned == 20


def test_who_is_waited_for_no_more_stops(consumer_of):
    stop = threading.Event()
    stop.set()
    found = gathered(consumer_of, {0: (0, 20)}, stop=stop)
    assert (found.records, found.ended_by) == ([], Ending.TIMEOUT)
    assert found.positions == {0: 0}


class Answer:
    """What a consumer gives when a partition fails; brokers fail seldom on demand."""

    def __init__(self, code):
        self._error = KafkaError(code)

    def error(self):
        return self._error

    def topic(self):
        return "t"

    def partition(self):
        return 0

    def offset(self):
        return 3


class Failing:
    """A consumer that has only an error to give, and takes its time for it."""

    def __init__(self, code, clock):
        self._code, self._clock = code, clock

    def poll(self, timeout_s):
        self._clock.advance(int(timeout_s * 1000))
        return Answer(self._code)

    def assignment(self):
        return []


@pytest.mark.parametrize(
    "code",
    [KafkaError._TRANSPORT, KafkaError.TOPIC_AUTHORIZATION_FAILED,
     KafkaError.KAFKA_STORAGE_ERROR, KafkaError.UNKNOWN_TOPIC_OR_PART],
)  # fmt: skip
def test_an_error_without_any_record_is_raised(code):
    clock = ManualClock()
    with pytest.raises(KafkaException) as caught:
        gather(
            Failing(code, clock),
            threading.Event(),
            "t",
            {0: (0, 5)},
            Limits(10, 10, 1000),
            EVERYTHING,
            clock.monotonic_ms,
        )
    assert caught.value.args[0].code() == code


@pytest.mark.parametrize("code", [KafkaError.INVALID_MSG, KafkaError._BAD_MSG])
def test_what_is_damaged_is_named(code):
    clock = ManualClock()
    with pytest.raises(Problem, match="t-0 is damaged from offset 3 on") as caught:
        gather(
            Failing(code, clock),
            threading.Event(),
            "t",
            {0: (0, 5)},
            Limits(10, 10, 1000),
            EVERYTHING,
            clock.monotonic_ms,
        )
    assert caught.value.error_code == 40900


def test_what_brings_nothing_in_time_ends_by_its_timeout():
    clock = ManualClock()

    class Silent(Failing):
        def poll(self, timeout_s):
            super().poll(timeout_s)

    found = gather(
        Silent(0, clock), threading.Event(), "t", {0: (2, 5)},
        Limits(10, 10, 1000), EVERYTHING, clock.monotonic_ms,
    )  # fmt: skip
    assert (found.ended_by, found.positions) == (Ending.TIMEOUT, {0: 2})


def test_time_ends_it_between_two_records_however_many_are_there(consumer_of):
    clock = ManualClock()

    def slow(_subject):
        clock.advance(400)
        return False

    found = gather(
        consumer_of({0: (0, 20)}), threading.Event(), "gathered", {0: (0, 20)},
        Limits(1000, 1 << 30, 1000), slow, clock.monotonic_ms,
    )  # fmt: skip
    assert (found.ended_by, found.scanned) == (Ending.TIMEOUT, 3)
    assert found.positions == {0: 3}
