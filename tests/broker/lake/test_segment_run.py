"""Which segments are chosen to be carried into one."""

import asyncio
from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from broker.ids import TopicPartition
from broker.lake.segment_run import (
    BATCHES_MAX,
    SEGMENTS_MAX,
    SEGMENTS_MIN,
    Held,
)
from broker.lake.segment_run import choose as choose_in_turns

STUCK, BUSY, GONE = (1, 0), (2, 0), (3, 0)


def held(sequence: int, size: int = 10, **more: Any) -> Held:
    settings: dict[str, Any] = {"keys": {STUCK}, "movable": True, "ends": True}
    return Held(sequence, bytes=size, **(settings | {"batches": 1} | more))


def choose(held: Sequence[Held], bytes_max: int) -> list[Held]:
    return asyncio.run(choose_in_turns(held, bytes_max))


def numbers(run: Sequence[Held]) -> list[int]:
    return [one.sequence for one in run]


def test_four_that_fit_into_one_are_a_run_and_as_many_more_as_fit() -> None:
    assert choose([held(n) for n in (2, 4, 6)], 100) == []
    assert numbers(choose([held(n) for n in (2, 4, 6, 8)], 100)) == [2, 4, 6, 8]
    assert numbers(choose([held(n) for n in range(2, 40, 2)], 60)) == [
        2, 4, 6, 8, 10, 12,
    ]  # fmt: skip


def test_a_run_is_bounded_in_batches_and_segments() -> None:
    many = [held(n, batches=BATCHES_MAX // 5) for n in range(2, 40, 2)]
    assert len(choose(many, 10**9)) == 5
    assert len(choose([held(n) for n in range(2, 400, 2)], 10**9)) == SEGMENTS_MAX


def test_a_run_begins_behind_what_is_too_large() -> None:
    some = [held(2, 90), held(4, 90), *(held(n) for n in (6, 8, 10, 12))]
    assert numbers(choose(some, 100)) == [6, 8, 10, 12]
    some[2] = held(6, 1_000)
    assert choose(some, 100) == []


def test_a_run_ends_before_a_segment_that_stays_with_batches_between() -> None:
    stays = Held(9, keys={STUCK})
    some = [held(n) for n in (2, 4, 6)]
    more = [held(n) for n in (10, 12, 14)]
    assert choose([*some, stays, *more], 100) == []
    assert numbers(choose([*some, held(8), stays, *more], 100)) == [2, 4, 6, 8]
    assert numbers(choose([*some, stays, *more, held(16)], 100)) == [10, 12, 14, 16]
    passed = choose([*some, Held(9, keys={BUSY}), *more], 100)
    assert numbers(passed) == [2, 4, 6, 10, 12, 14]
    damaged = Held(9, damaged=True)
    assert choose([*some, damaged, *more], 100) == []


def test_a_run_ends_where_there_is_a_place_behind_it() -> None:
    some = [held(n) for n in (2, 4, 6, 8)]
    carried = held(9, ends=False)
    assert numbers(choose([*some, carried], 100)) == [2, 4, 6, 8]
    assert numbers(choose([*some[:3], held(7, ends=False), held(8)], 100)) == [
        2, 4, 6, 7, 8,
    ]  # fmt: skip
    assert choose([*some[:3], held(7, ends=False)], 100) == []


SEGMENTS = st.lists(
    st.tuples(
        st.integers(1, 60),
        st.sets(st.sampled_from([STUCK, BUSY, GONE])),
        st.booleans(),
        st.booleans(),
    ),
    max_size=20,
)


@given(SEGMENTS)
def test_whatever_is_chosen_keeps_the_order_of_batches(segments: list[Any]) -> None:
    some = [
        Held(n, keys, size, 1, movable=movable, ends=ends)
        for n, (size, keys, movable, ends) in enumerate(segments)
    ]
    run = choose(some, 100)
    if not run:
        return
    assert len(run) >= SEGMENTS_MIN
    assert sum(one.bytes for one in run) <= 100
    assert run[-1].ends
    assert all(one.movable for one in run)
    carried: set[TopicPartition] = set()
    for one in some[run[0].sequence : run[-1].sequence + 1]:
        if one in run:
            carried |= set(one.keys)
        else:
            assert not carried & set(one.keys)
