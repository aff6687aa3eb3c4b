"""The last records of a topic, where not each offset has one."""

import threading
from types import SimpleNamespace

import pytest
from confluent_kafka import Producer

from admin_api.reading import lookback
from admin_api.reading.gather import Gathered
from admin_api.reading.lookback import COUNTED_MAX, Lookback
from admin_api.reading.readers import Readers
from admin_api.reading.schemas import Ending
from broker.clock import SystemClock
from tests.support.clock import ManualClock
from tests.support.confluent import produce_all
from tests.support.patience import IDLE_S


@pytest.fixture(scope="module")
def ends(plane):
    """A topic of which partition 0 has a committed record at each fourth offset, the
    ends of it and of an aborted one between; 1 has ten records."""
    plane.create("backwards", partitions=2)
    producer = Producer(
        {"bootstrap.servers": plane.bootstrap, "transactional.id": "backwards"}
    )
    producer.init_transactions(IDLE_S)
    for n in range(12):
        for value, end in (
            (b"%d" % n, producer.commit_transaction),
            (b"aborted", producer.abort_transaction),
        ):
            producer.begin_transaction()
            producer.produce("backwards", value, partition=0)
            assert producer.flush(IDLE_S) == 0
            end(IDLE_S)
    produce_all(plane.bootstrap, "backwards", [(None, b"v", None, 1)] * 10)
    return {0: 48, 1: 10}


def places(found):
    return [(one["partition_id"], one["offset"]) for one in found["data"]]


@pytest.mark.parametrize("last", [1, 3, 10, 12, 50])
def test_so_many_records_come_as_there_are(plane, ends, last):
    url = f"/v1/topics/backwards/records?timeout_ms=30000&last={last}"
    found = plane.get(url).json()
    committed = [(0, 4 * n) for n in range(12)][-last:]
    assert places(found) == committed + [(1, n) for n in range(10)][-last:]
    assert found["ended_by"] == "END"


def test_the_last_records_are_taken_before_a_filter_looks_at_them(plane, ends):
    url = "/v1/topics/backwards/records?timeout_ms=30000&last=3&partition=0"
    found = plane.get(f"{url}&filter=value!='10'").json()
    assert places(found) == [(0, 36), (0, 44)]


def test_of_too_many_offsets_are_taken(plane, ends, monkeypatch):
    monkeypatch.setattr(lookback, "COUNTED_MAX", 3)
    url = "/v1/topics/backwards/records?timeout_ms=30000&last=4&partition=0"
    assert places(plane.get(url).json()) == [(0, 44)]


def begun(plane, spans, records, now_ms, time_ms=60_000):
    consumer = Readers(plane.bootstrap)._consumer([])
    try:
        return Lookback(records, {0: 0, 1: 0}).begin(
            consumer, threading.Event(), "backwards", spans, time_ms, now_ms
        )
    finally:
        consumer.close()


def test_what_is_wide_enough_stays(plane, ends):
    now_ms = SystemClock().monotonic_ms
    spans = {0: (48, 48), 1: (7, 10)}
    assert begun(plane, spans, 3, now_ms) == spans
    assert begun(plane, {0: (43, 48)}, 5, now_ms) == {0: (28, 48)}


def test_where_time_is_over_it_is_as_it_was_asked(plane, ends):
    clock = ManualClock()
    spans = {0: (43, 48)}
    assert begun(plane, spans, 5, clock.monotonic_ms, time_ms=0) == spans


def test_what_was_not_read_to_its_end_is_not_counted(plane, ends, monkeypatch):
    """Its last records are not known: those that were seen are not the last ones."""
    clock = ManualClock()

    def is_cut_short(_consumer, _stop, _topic, _spans, _limits, note, _now_ms):
        for offset in (40, 41):
            note(SimpleNamespace(partition=0, offset=offset))
        clock.advance(60_000)
        return Gathered({0: 42}, ended_by=Ending.TIMEOUT)

    monkeypatch.setattr(lookback, "gather", is_cut_short)
    spans = {0: (40, 48)}
    assert begun(plane, spans, 2, clock.monotonic_ms) == spans


def test_of_all_partitions_together_so_many_are_counted():
    two = {0: (0, 9), 1: (0, 9)}
    assert Lookback(COUNTED_MAX, {}).is_counted({0: (0, 9)})
    assert Lookback(COUNTED_MAX // 2, {}).is_counted(two)
    assert not Lookback(COUNTED_MAX // 2 + 1, {}).is_counted(two)
    assert not Lookback(0, {}).is_counted(two)


@pytest.mark.parametrize(
    ("first", "before"), [(0, (300, 400)), (380, (380, 400)), (400, (400, 400))]
)
def test_nothing_is_looked_at_before_the_log_begins(first, before):
    assert Lookback(5, {0: first})._before(0, 400, 410) == before
