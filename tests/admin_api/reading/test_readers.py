"""Readers: never too many, each closed once its work is done."""

import asyncio
import json
import os
import threading
import time

import psutil
import pytest
from confluent_kafka import Consumer, TopicPartition

from admin_api.problems import Problem
from admin_api.reading.readers import (
    QUEUED_BYTES_MAX,
    QUEUED_RECORDS_MIN,
    READERS_MAX,
    Readers,
)
from tests.support.batches import Record, make_batch
from tests.support.confluent import produce_all
from tests.support.patience import IDLE_S, Patience, wait_until
from tests.support.peer import Peer, produce_request


class Quiet:
    """A consumer that notes what is done to it, and on which thread."""

    def __init__(self, _config=None):
        self.calls, self.threads = [], set()

    def assign(self, places):
        self._note("assign", [(p.topic, p.partition, p.offset) for p in places])

    def close(self):
        self._note("close")

    def work(self, stop):
        self._note("work", stop.is_set())

    def _note(self, *call):
        self.calls.append(call)
        self.threads.add(threading.get_ident())


@pytest.fixture
def made():
    return []


@pytest.fixture
def readers(made):
    def make(config):
        made.append(Quiet(config))
        return made[-1]

    return Readers("nowhere", 2, make)


def test_all_of_a_readers_work_is_done_in_order_on_one_thread(readers, made):
    async def story():
        reader = readers.reader("t", {0: 5, 2: 7})
        await reader.run(Quiet.work)
        await reader.run(Quiet.work)
        reader.close()
        reader.close()

    asyncio.run(story())
    wait_until(lambda: readers.open == 0)
    [consumer] = made
    assert consumer.calls == [
        ("assign", [("t", 0, 5), ("t", 2, 7)]),
        ("work", False),
        ("work", False),
        ("close",),
    ]
    assert consumer.threads.isdisjoint({threading.get_ident()})
    assert len(consumer.threads) == 1


def test_who_is_one_too_many_is_refused_until_one_is_closed(readers):
    first, second = readers.reader("t", {0: 0}), readers.reader("t", {0: 0})
    with pytest.raises(Problem) as caught:
        readers.reader("t", {0: 0})
    assert caught.value.status == 429
    first.close()
    wait_until(lambda: readers.open == 1)
    third = readers.reader("t", {0: 0})
    for reader in (second, third):
        reader.close()
    wait_until(lambda: readers.open == 0)


def test_a_consumer_is_closed_only_after_the_work_that_nobody_waits_for(readers, made):
    begun, go_on = threading.Event(), threading.Event()

    def slow(consumer, stop):
        begun.set()
        assert stop.wait(60)
        assert go_on.wait(60)
        consumer.work(stop)

    async def story():
        reader = readers.reader("t", {0: 0})
        task = asyncio.ensure_future(reader.run(slow))
        await asyncio.to_thread(begun.wait, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        reader.close()
        assert readers.open == 1
        go_on.set()

    asyncio.run(story())
    wait_until(lambda: readers.open == 0)
    assert made[0].calls[1:] == [("work", True), ("close",)]


def test_a_reader_that_never_read_is_closed_as_well(readers, made):
    readers.reader("t", {0: 0}).close()
    wait_until(lambda: readers.open == 0)
    assert made == []


def test_what_was_compressed_a_thousand_times_over_comes_a_batch_at_a_time(plane):
    """400 MB in 40 batches of 20 kB; a fetch of all of them would be all in memory."""
    plane.create("zeros")
    batch = make_batch(
        [Record(None, os.urandom(20_000))] + [Record(None, bytes(1_000_000))] * 10,
        codec=4,
    )
    with Peer(plane.bootstrap) as peer:
        for _ in range(40):
            answer = peer.ask(produce_request("zeros", batch), 9)
            assert answer.responses[0].partition_responses[0].error_code == 0
    process = psutil.Process()
    before = process.memory_info().rss
    consumer = plane.app.state.readers._consumer([TopicPartition("zeros", 0, 0)])
    try:
        seen = 0
        while seen < 40 * 11:
            seen += consumer.poll(IDLE_S).error() is None
            assert process.memory_info().rss - before < 150e6
    finally:
        consumer.close()


def test_who_is_not_read_from_holds_few_records_however_small_they_are(plane):
    """Of 20 bytes each it held 100,000, which took 40 MB."""
    plane.create("small")
    records = [(None, b"v" * 20, None, 0)] * 20_000
    produce_all(plane.bootstrap, "small", records, **{"batch.num.messages": 100})
    held = []

    def note(text):
        topics = json.loads(text)["topics"]
        parts = topics.get("small", {"partitions": {}})["partitions"]
        held.append(parts.get("0", {"fetchq_cnt": 0})["fetchq_cnt"])

    config = Readers(plane.bootstrap)._config
    noting = {"statistics.interval.ms": 100, "stats_cb": note}
    consumer = Consumer(config | noting)
    patience = Patience()
    try:
        consumer.assign([TopicPartition("small", 0, 0)])
        while len(held) < 2 or held[-1] == 0 or held[-1] > held[-2]:
            assert patience.lasts(len(held))
            consumer.poll(0)
            time.sleep(0.02)
    finally:
        consumer.close()
    assert held[-1] <= 2 * QUEUED_RECORDS_MIN


def test_what_waits_for_all_of_them_is_bounded_together():
    each = Readers("nowhere")._config["queued.max.messages.kbytes"] << 10
    assert each * READERS_MAX == QUEUED_BYTES_MAX
