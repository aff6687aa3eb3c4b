"""What counts of a partition's batches, against a walk over all of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.records.kinds import (
    ABORT,
    COMMIT,
    CONTROL,
    DAMAGED,
    PLAIN,
    TRANSACTIONAL,
)
from jobs.decided import decided, undecidable
from jobs.stuck import way_out
from tests.jobs.specials import Special, chunk_of, end_by_hand


def found_in(specials: list[Special], cuts: list[int]) -> tuple[int, list[int]]:
    """Where the stable part ends, and the offsets that count in it."""
    chunks, first = [], 0
    for sequence, end in enumerate([*sorted(cuts), len(specials)]):
        if first < end:
            chunks.append(chunk_of(specials[first:end], first, sequence))
        first = max(first, end)
    result = decided(chunks)
    counted = [offset for one in result for offset in one.counted().base.tolist()]
    ends = [int(one.last[-1]) + 1 for one in result]
    return max(ends, default=0), counted


def by_hand(specials: list[Special]) -> tuple[int, list[int]]:
    """For each batch, look ahead for its producer's next marker."""
    counted, stop = [], len(specials)
    for at, one in enumerate(specials):
        kind = one[0]
        if kind == PLAIN:
            counted.append(at)
        elif kind == DAMAGED:  # it may be anything
            stop = min(stop, at)
        elif kind == TRANSACTIONAL:
            end = end_by_hand(one, at, specials[at + 1 :])
            if end is None:
                stop = min(stop, at)
            elif end == COMMIT:
                counted.append(at)
    return stop, [at for at in counted if at < stop]


SPECIALS = st.lists(
    st.tuples(st.just(PLAIN), st.just(-1))
    | st.tuples(st.just(DAMAGED), st.integers(-1, 3))
    | st.tuples(
        st.sampled_from([TRANSACTIONAL, TRANSACTIONAL, ABORT, COMMIT, CONTROL]),
        st.integers(1, 3),
        st.sampled_from([0, 0, 0, 1, 2]),
        st.sampled_from([0, 0, 0]) | st.integers(1, 25),
    ),
    max_size=25,
)


@given(SPECIALS, st.lists(st.integers(0, 25), max_size=3))
def test_agrees_with_a_look_ahead_from_each_batch(specials, cuts) -> None:
    cuts = [min(cut, len(specials)) for cut in cuts]
    assert found_in(specials, cuts) == by_hand(specials)


def test_plain_batches_are_handed_back_as_they_are() -> None:
    chunk = chunk_of([(PLAIN, -1)] * 3, 0, 1)
    assert decided([chunk]) == [chunk]
    assert decided([chunk])[0].counts is None


def test_what_does_not_count_keeps_its_place() -> None:
    specials = [(TRANSACTIONAL, 1), (PLAIN, -1), (ABORT, 1)]
    (chunk,) = decided([chunk_of(specials, 0, 1)])
    assert chunk.base.tolist() == [0, 1, 2]
    assert chunk.counted().base.tolist() == [1]
    assert chunk.cut(1, 3).counted().base.tolist() == [1]


def test_nothing_is_left_of_what_begins_with_an_open_transaction() -> None:
    assert decided([chunk_of([(TRANSACTIONAL, 1), (PLAIN, -1)], 0, 1)]) == []


@pytest.mark.parametrize(
    "next_one",
    [
        [(TRANSACTIONAL, 1, 1)],
        [(COMMIT, 1, 2)],
        [(COMMIT, 1, 0, 2)],
        [(TRANSACTIONAL, 1, 0), (ABORT, 1, 0, 2)],
    ],
)
def test_a_marker_that_is_lost_without_a_trace_ends_what_is_decided(next_one) -> None:
    chunk = chunk_of([(PLAIN, -1), (TRANSACTIONAL, 1, 0), *next_one], 0, 4)
    judged = decided([chunk])
    assert [one.base.tolist() for one in judged] == [[0]]
    assert undecidable([chunk], judged) == (
        "segment 4: the marker of the transaction that begins at offset 1 is lost, so "
        "it is not known whether its records count. " + way_out(2)
    )


@pytest.mark.parametrize(
    ("specials", "end"),
    [
        ([(TRANSACTIONAL, 1), (PLAIN, -1), (PLAIN, -1)], 2),
        ([(TRANSACTIONAL, 1), (TRANSACTIONAL, 1), (PLAIN, -1)], 3),
        ([(TRANSACTIONAL, 1), (TRANSACTIONAL, 2), (PLAIN, -1)], 2),
        ([(TRANSACTIONAL, 1), (COMMIT, 1), (PLAIN, -1)], 5),
        ([(TRANSACTIONAL, 1, 0), (COMMIT, 1, 2), (TRANSACTIONAL, 2)], 2),
    ],
)
def test_before_a_damaged_marker_the_open_records_are_given_up(specials, end) -> None:
    """Those of the first that is open, as far as they come before it; if none is, the
    marker."""
    later = [(DAMAGED, -1), (TRANSACTIONAL, 1), (TRANSACTIONAL, 2)]
    chunk = chunk_of([(PLAIN, -1), *specials, *later], 0, 1)
    told = undecidable([chunk], decided([chunk]))
    assert told is not None
    assert told.endswith(f"DeleteRecords before {end}")


@pytest.mark.parametrize("may_come", [(TRANSACTIONAL, 1, 0), (COMMIT, 2, 5)])
def test_a_marker_that_may_come_is_not_lost(may_come) -> None:
    chunk = chunk_of([(TRANSACTIONAL, 1, 0), may_come], 0, 1)
    assert undecidable([chunk], decided([chunk])) is None
