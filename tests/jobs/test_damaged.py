"""The batch that fails is found among all that failed together."""

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from jobs.damaged import first_failing
from jobs.slices import Slice


def slice_of(first: int, count: int, *, counts: bool) -> Slice:
    bases = first + np.arange(count, dtype=np.int64)
    said = bytes(base % 2 for base in bases.tolist()) if counts else b""
    column = bases.tobytes()
    return Slice("s", first, column, column, column, said)


def bases_of(slices: Sequence[Slice]) -> list[int]:
    found = []
    for one in slices:
        bases = np.frombuffer(one.bases, np.int64).tolist()
        assert one.positions == one.lengths == one.bases
        assert not one.counts or list(one.counts) == [base % 2 for base in bases]
        found += bases
    return found


@given(
    st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=4),
    st.sets(st.integers(0, 20)),
)
def test_it_is_the_first(sizes: list[tuple[int, bool]], bad: set[int]) -> None:
    slices, first = [], 0
    for count, counts in sizes:
        slices.append(slice_of(first, count, counts=counts))
        first += count
    looked: list[int] = []

    def fails(some: Sequence[Slice]) -> bool:
        looked.append(len(bases_of(some)))
        return not bad.isdisjoint(bases_of(some))

    there = sorted(bad & set(range(first)))
    assert first_failing(slices, fails) == (there[0] if there else None)
    assert sum(looked) <= first + 1
