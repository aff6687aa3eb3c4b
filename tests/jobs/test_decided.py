"""What counts of a partition's batches, against a walk over all of them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from broker.records.kinds import (
    ABORT,
    COMMIT,
    CONTROL,
    DAMAGED,
    PLAIN,
    TRANSACTIONAL,
    Kinds,
)
from jobs.decided import decided
from jobs.planner import Batches

Special = tuple[int, int]
"""Kind and producer."""


def chunk_of(specials: list[Special], first: int, sequence: int) -> Batches:
    count = len(specials)
    base = first + np.arange(count, dtype=np.int64)
    kinds = Kinds(
        np.array([kind for kind, _ in specials], np.uint8),
        np.array([producer for _, producer in specials], np.int64),
    )
    is_plain = all(kind == PLAIN for kind, _ in specials)
    one = np.ones(count, np.int64)
    return Batches(sequence, "s", base, base, base, one, None if is_plain else kinds)


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
    for at, (kind, producer) in enumerate(specials):
        if kind == PLAIN:
            counted.append(at)
        elif kind == DAMAGED:  # it may be anything
            stop = min(stop, at)
        elif kind == TRANSACTIONAL:
            later = specials[at + 1 :]
            ends = [
                k
                for k, p in later
                if k == DAMAGED or (p == producer and k in (ABORT, COMMIT))
            ]
            if not ends or ends[0] == DAMAGED:
                stop = min(stop, at)
            elif ends[0] == COMMIT:
                counted.append(at)
    return stop, [at for at in counted if at < stop]


SPECIALS = st.lists(
    st.tuples(st.just(PLAIN), st.just(-1))
    | st.tuples(st.just(DAMAGED), st.integers(-1, 3))
    | st.tuples(
        st.sampled_from([TRANSACTIONAL, TRANSACTIONAL, ABORT, COMMIT, CONTROL]),
        st.integers(1, 3),
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
