"""Carrying and releasing segments holds the loop for milliseconds at most, however much
they hold. Processor time of the loop's thread; the best of some rounds counts."""

import asyncio
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from broker.lake.segment_run import Held, choose
from broker.log.index import SEQUENCE_SHIFT, BatchIndex
from broker.log.partition import PartitionLog
from broker.runtime.partitions.partitions import Partitions
from broker.storage.ranges import Ranges, pack_ranges
from tests.support.turns import check_turn, turn_ms, turns_ms, uncollected

PARTITIONS = 20_000
SEGMENTS = 64
SEGMENT_BATCHES = 50_000
MANY = 1 << 60


def test_a_run_of_thousands_of_segments() -> None:
    held = [
        Held(n, frozenset({(1, 0)}), 10, 1, movable=True, ends=False)
        for n in range(8_000)
    ]
    check_turn("run", lambda: max(turns_ms(choose(held, MANY))))


def test_a_run_behind_which_there_are_segments_of_other_partitions() -> None:
    others = pack_ranges({(2, index): (0, 5) for index in range(1_000)})
    held = [
        *(Held(n, frozenset({(1, 0)}), 10, 1, movable=True) for n in range(SEGMENTS)),
        *(Held(SEGMENTS + n, others.keys()) for n in range(SEGMENTS)),
    ]
    check_turn("run and others", lambda: max(turns_ms(choose(held, MANY))))


def small_logs() -> list[Any]:
    """Partitions with a batch in each of two segments."""
    made = []
    for _ in range(PARTITIONS):
        log = PartitionLog()
        log.offsets.assign(2)
        for offset in (0, 1):
            place = 2 * (offset + 1) << SEQUENCE_SHIFT
            log.commit(offset, offset, 0, place, 100)
        log.transactions.begin(0, 1)
        log.transactions.end(1, 1, commits=False)
        made.append(SimpleNamespace(log=log, key=(1, len(made))))
    return made


def partitions_of(logs: list[Any], ranges: Ranges) -> Partitions:
    """Partitions of which each remembers an aborted transaction, for which all other
    segments are looked at; there is nothing of them in those."""
    theirs = {(2, index): (0, 5) for index in range(100)}
    others = [
        SimpleNamespace(sequence=n, ranges=pack_ranges(theirs))
        for n in range(1, 2 * SEGMENTS, 2)
    ]
    made: Any = object.__new__(Partitions)
    made._by_topic, made._waiting = {1: logs}, SimpleNamespace(topics=())
    made._wal = SimpleNamespace(ranges=lambda _: ranges, segments=lambda: others)
    return made  # type: ignore[no-any-return]


def test_a_release_of_a_segment_of_thousands_of_partitions() -> None:
    ranges = pack_ranges({(1, index): (0, 1) for index in range(PARTITIONS)})

    def longest_ms() -> float:
        logs = small_logs()
        longest = max(turns_ms(partitions_of(logs, ranges).segment_released(2)))
        assert {one.log.index.first_offset for one in logs} == {1}
        return longest

    check_turn("release", longest_ms)


class Deleted:
    """A partition of which the first record is to go."""

    deleted, log_start, watchers = False, 0, ()

    def __init__(self, one: Any) -> None:
        self.log, self.key = one.log, one.key


def test_log_starts_of_thousands_of_partitions_are_raised() -> None:
    """As retention and DeleteRecords do."""

    made: Any = partitions_of([], pack_ranges({}))
    made._raising, made._moved = asyncio.Lock(), {}
    made._call_soon = lambda _: None
    made._topics = SimpleNamespace(set_log_starts=lambda _: asyncio.sleep(0))

    def longest_ms() -> float:
        moves = {Deleted(one): 1 for one in small_logs()}
        with uncollected():
            longest = max(turns_ms(made._raise(moves)))
        assert {one.log.start for one in moves} == {1}
        return longest

    check_turn("log starts", longest_ms)


def test_a_carry_of_segments_of_thousands_of_partitions() -> None:
    ranges = pack_ranges({(1, index): (0, 1) for index in range(PARTITIONS // 2)})
    sequences = tuple(range(2, 2 + 2 * SEGMENTS, 2))
    carried: Any = SimpleNamespace(sequences=sequences, moves={})
    partitions = partitions_of(small_logs(), ranges)
    check_turn("carried", lambda: max(turns_ms(partitions.segments_carried(carried))))


@pytest.mark.parametrize("count", [500_000, 2_000_000])
def test_a_move_of_some_batches_of_a_partition_that_has_a_million(count: int) -> None:
    numbers = np.arange(count)
    places = (numbers // SEGMENT_BATCHES * 2 + 2 << SEQUENCE_SHIFT) + (
        numbers % SEGMENT_BATCHES
    )
    old = places[3 * SEGMENT_BATCHES + 100 : 4 * SEGMENT_BATCHES]
    new = np.arange(len(old)) + (9 << SEQUENCE_SHIFT)

    def longest_ms() -> float:
        index = BatchIndex()
        index.extend(numbers, numbers, numbers, places, np.full(count, 100))
        return turn_ms(lambda: index.move(old, new, (2, 4, 6, 8)))

    check_turn(f"move of {count}", longest_ms)
