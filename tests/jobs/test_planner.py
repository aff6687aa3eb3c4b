"""Rounds are bounded, fair, and cover what is pending without a break."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.ids import TopicNumber, TopicPartition
from jobs.batches import Batches, Places
from jobs.flush import Flush, Waiting
from jobs.planner import (
    TRIAL_BYTES,
    Pending,
    by_topic,
    due,
    pack,
    plan,
    trials,
)

NOW = 1_000_000
ALIKE = Flush(5_000, 5_000, 1 << 20)
"""What trickles goes as what flows."""


def batches(sizes: list[int], base: int, sequence: int = 1) -> Batches:
    length = np.array(sizes, np.int64)
    bases = base + np.arange(len(sizes), dtype=np.int64) * 10
    places = Places.of(bases, bases + 9, np.cumsum(length), length)
    return Batches.all_of(sequence, "segment", places)


def pending(
    sizes: list[int], key: tuple[int, int] = (1, 0), since_ms: int = NOW
) -> Pending:
    half = len(sizes) // 2
    chunks = [batches(sizes[:half], 0), batches(sizes[half:], half * 10, 2)]
    return Pending(key, 0, chunks, since_ms)


SIZES = st.lists(st.integers(61, 5000), max_size=30)


@settings(max_examples=200, deadline=None)
@given(st.lists(SIZES, max_size=6), st.integers(1, 4), st.integers(100, 40_000))
def test_a_round_is_bounded_and_leaves_out_nothing_in_between(
    partitions: list[list[int]], cores: int, round_bytes: int
) -> None:
    waiting = [pending(sizes, (1, p)) for p, sizes in enumerate(partitions)]
    round_ = plan(waiting, cores, round_bytes=round_bytes, item_bytes=8000)
    assert len(round_.tasks) <= cores
    largest = max((item.bytes for item in round_.items), default=0)
    assert largest <= max(8000, 5000)
    assert sum(item.bytes for item in round_.items) <= round_bytes + 5000
    taken = 0
    for one in waiting:
        items = sorted(
            (item for item in round_.items if item.key == one.key),
            key=lambda item: item.start,
        )
        reached = one.start
        for item in items:
            assert item.start == reached
            assert item.end == int(item.chunks[-1].last[-1]) + 1
            assert item.bytes == sum(int(c.length.sum()) for c in item.chunks)
            reached, taken = item.end, taken + sum(map(len, item.chunks))
    whole = sum(map(len, partitions))
    assert round_.rest == (taken < whole)
    assert taken > 0 or whole == 0


def test_rounds_that_follow_each_other_take_everything() -> None:
    left, rounds = pending([1000] * 100), 0
    while left.bytes:
        [task] = plan([left], 1, round_bytes=10_000, item_bytes=4000).tasks
        end = max(item.end for item in task)
        left = Pending(left.key, end, [c.above(end) for c in left.chunks], NOW)
        rounds += 1
    assert rounds == 10


def test_every_partition_gets_a_slice_before_any_gets_two() -> None:
    busy = pending([1000] * 50, (1, 0))
    quiet = [pending([100], (2, p)) for p in range(5)]
    items = plan([busy, *quiet], 2, round_bytes=20_000, item_bytes=4000).items
    assert {item.key for item in items} == {busy.key, *(one.key for one in quiet)}


def due_of(
    parts: list[Pending],
    flush: Flush = ALIKE,
    asked: frozenset[TopicNumber] | None = frozenset(),
) -> list[TopicPartition]:
    found = due(parts, by_topic(parts, NOW, {}), lambda number: flush, asked)
    return [one.key for one in found]


def test_what_waits_longest_comes_first() -> None:
    old, young = pending([100], (1, 0), NOW - 9000), pending([100], (2, 0), NOW - 8000)
    assert due_of([young, old]) == [(1, 0), (2, 0)]


def test_half_due_topics_come_along_and_young_ones_do_not() -> None:
    old, half, young = (
        pending([100], (n, 0), NOW - age) for n, age in enumerate((5000, 2500, 2499))
    )
    assert due_of([old, half, young]) == [(0, 0), (1, 0)]
    assert due_of([half, young]) == []


def test_a_topics_partitions_go_together_and_count_together_in_bytes() -> None:
    parts = [pending([600], (1, 0)), pending([600], (1, 1)), pending([100], (2, 0))]
    assert due_of(parts, ALIKE._replace(bytes=1000)) == [(1, 0), (1, 1)]
    aged = [pending([600], (1, 0), NOW - 5000), *parts[1:]]
    assert due_of(aged) == [(1, 0), (1, 1)]


def test_asked_topics_are_due_at_once() -> None:
    parts = [pending([10], (1, 0)), pending([10], (2, 0))]
    assert due_of(parts, asked=frozenset({TopicNumber(2)})) == [(2, 0)]
    assert len(due_of(parts, asked=None)) == 2


def test_what_a_topic_has_is_told_from_its_partitions() -> None:
    parts = [
        pending([600, 10], (1, 0), NOW - 70),
        pending([5], (1, 3), NOW - 90),
        pending([], (2, 0), NOW - 999),
        pending([10], (3, 0), NOW - 5),
    ]
    assert by_topic(parts, NOW, {3: NOW - 8}, newest_segment=7) == {
        1: Waiting(615, 2, 90, None, 6),
        3: Waiting(10, 1, 5, 8, 5),
    }


def test_nothing_pending_is_nothing_to_do() -> None:
    assert due_of([pending([])], Flush(0, 0, 0)) == []
    assert plan([], 2).tasks == []


def test_a_batch_above_every_bound_is_an_item_of_its_own() -> None:
    [task] = plan([pending([100, 90_000, 100])], 1, item_bytes=4000).tasks
    assert sorted(item.bytes for item in task) == [100, 100, 90_000]


def test_packing_is_even() -> None:
    parts = [pending([size], (1, p)) for p, size in enumerate([900, 500, 400, 300])]
    tasks = pack(plan(parts, 1).items, 2)
    assert sorted(sum(i.bytes for i in task) for task in tasks) == [900, 1200]


def test_above_cuts_at_the_batch_that_holds_the_offset() -> None:
    some = batches([100] * 5, 0)
    assert [int(some.above(o).base[0]) for o in (0, 9, 10, 11, 49)] == [
        0,
        0,
        10,
        10,
        40,
    ]
    assert len(some.above(50)) == 0


def test_of_what_failed_one_small_slice_is_tried() -> None:
    half = TRIAL_BYTES // 2
    waiting = [
        pending([half] * 6, (1, 0)),
        pending([100] * 6, (1, 1)),
        pending([half] * 6, (2, 0)),
        pending([TRIAL_BYTES * 2] * 2, (2, 1)),
        pending([half] * 6, (2, 2)),
    ]
    failed = {(1, 0): (1, -1), (1, 1): (1, -1), (2, 1): (2, 1), (2, 2): (2, 2)}
    chosen = trials(waiting, failed.get)
    assert [one.key for one in chosen] == [(1, 0), (2, 0), (2, 1), (2, 2)]
    assert [one.bytes for one in chosen] == [
        TRIAL_BYTES, half * 6, TRIAL_BYTES * 2, TRIAL_BYTES,
    ]  # fmt: skip
    assert chosen[0].start == waiting[0].start
    assert chosen[0].since_ms == waiting[0].since_ms
