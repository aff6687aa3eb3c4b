"""What each part knows of a table, and what is null where a part says nothing."""

import asyncio

import pytest

from admin_api.kafka import Watermarks
from admin_api.tables.facts import TableFacts
from admin_api.tables.survey import (
    Surveyed,
    _by_topic,
    _from_broker,
    partitions_of,
    summary,
)
from broker.status.schema import CompactorStatus, TableState
from broker.topics.topic import Topic

TOPIC = Topic(1, b"0" * 16, "orders", 2)
MARKS = {("orders", 0): Watermarks(2, 10, 12), ("orders", 1): Watermarks(0, 5, 5)}
THERE = TableFacts("/t", version=3, ends={0: 7, 1: 5})


def surveyed(facts=THERE, marks=MARKS, compactor=None, starts=None):
    problem = None if marks else "nobody answers"
    return Surveyed(TOPIC, starts or {}, facts, marks, problem, compactor)


def status(**more):
    return CompactorStatus(tables=(TableState("orders", **more),))


def test_the_lag_is_what_is_stable_and_not_in_the_table():
    first, second = partitions_of(surveyed())
    assert (first.log_start, first.table_end, first.lag_records) == (2, 7, 3)
    assert (first.last_stable_offset, first.high_watermark) == (10, 12)
    assert second.lag_records == 0
    assert summary("http://plane", surveyed()).lag_records == 3


def test_without_the_broker_its_offsets_are_null_and_the_catalog_says_the_start():
    one = surveyed(marks={}, starts={0: 4})
    first, second = partitions_of(one)
    assert (first.log_start, second.log_start) == (4, 0)
    assert (first.table_end, first.high_watermark, first.lag_records) == (7, None, None)
    found = summary("http://plane", one)
    assert (found.lag_records, found.broker_problem) == (None, "nobody answers")


def test_a_table_that_starts_late_ends_at_least_there():
    one = surveyed(facts=TableFacts("/t"), starts={0: 4})
    assert [part.table_end for part in partitions_of(one)] == [2, 0]


def test_of_a_table_that_cannot_be_read_the_end_is_unknown():
    one = surveyed(facts=TableFacts("/t", problem="a hole"))
    assert [part.table_end for part in partitions_of(one)] == [None, None]
    found = summary("http://plane", one)
    assert (found.lag_records, found.rows, found.problem) == (None, None, "a hole")


def test_the_compactors_last_error_is_shown():
    failed = status(stuck=True, why="no commit", since_ms=5, lag_ms=1500)
    found = summary("http://plane", surveyed(compactor=failed))
    assert found.compaction.stuck
    assert (found.compaction.error, found.compaction.error_since_ms) == ("no commit", 5)
    assert found.lag_seconds == 1.5


def test_the_age_of_what_waits_is_told_of_each_partition():
    late = status(lag_ms=1500, lags_ms={0: 1500})
    lags = [one.lag_seconds for one in partitions_of(surveyed(compactor=late))]
    assert lags == [1.5, 0.0]
    unseen = status(lag_ms=1500, lags_ms={1: 700})
    lags = [one.lag_seconds for one in partitions_of(surveyed(compactor=unseen))]
    assert lags == [None, 0.0]
    assert partitions_of(surveyed())[0].lag_seconds is None


AT_THE_END = {key: Watermarks(0, 5, 5) for key in MARKS}
LATE = status(lag_ms=1500)


@pytest.mark.parametrize(
    ("marks", "compactor", "seconds"),
    [
        (MARKS, None, None),
        (MARKS, LATE, 1.5),
        (MARKS, CompactorStatus(), None),
        (AT_THE_END, CompactorStatus(), 0.0),
        (AT_THE_END, None, 0.0),
        ({}, CompactorStatus(), 0.0),
        ({}, LATE, 1.5),
        ({}, None, None),
    ],
)
def test_the_age_of_what_waits_is_known_or_null(marks, compactor, seconds):
    found = summary("http://plane", surveyed(marks=marks, compactor=compactor))
    assert found.lag_seconds == seconds
    assert (found.compaction is None) == (compactor is None)


def test_of_a_topic_the_compactor_says_what_it_says_of_all_together():
    together = CompactorStatus(
        tables=(TableState("a", lag_ms=7), TableState("b", lag_ms=9))
    )
    said = _by_topic(together)
    assert said("b").tables == (TableState("b", lag_ms=9),)
    assert said("c").tables == ()
    assert _by_topic(None)("a") is None


class Patient:
    """Says nothing, and notes for how long it was waited for."""

    async def watermarks(self, partitions, timeout_s):
        self.asked = len(partitions), timeout_s
        return {}


@pytest.mark.parametrize(("partitions", "timeout_s"), [(2, 3.0), (10_000, 8.0)])
def test_for_thousands_of_partitions_the_broker_is_waited_for_longer(
    partitions, timeout_s
):
    kafka, topic = Patient(), Topic(1, b"0" * 16, "orders", partitions)
    assert asyncio.run(_from_broker(kafka, [topic])) == ({}, None)
    assert kafka.asked == (partitions, pytest.approx(timeout_s, abs=0.01))
