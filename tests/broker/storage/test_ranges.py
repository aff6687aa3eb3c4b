"""Packed ranges against a dict of tuples."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.ids import TopicPartition
from broker.storage.columns import ROW, Rows, rows_of
from broker.storage.ranges import PackedRanges, Range, pack_ranges, ranges_of, widen

KEYS = st.tuples(
    st.sampled_from([1, 2, 7, 2**31, 2**32 - 1]), st.sampled_from([0, 1, 5, 2**31 - 1])
)
RANGES = st.dictionaries(KEYS, st.tuples(st.integers(0, 2**62), st.integers(0, 2**62)))
NOBODYS = (3, 5)
Batches = list[tuple[TopicPartition, int, int]]
"""Partition, base, last delta of each."""


@st.composite
def segments(draw: st.DrawFn) -> Batches:
    """Batches as a segment has them."""
    ends: dict[TopicPartition, int] = {}
    found = []
    for key in draw(st.lists(KEYS, max_size=30)):
        base = ends.get(key, draw(st.integers(0, 2**40))) + draw(st.integers(0, 3))
        delta = draw(st.integers(0, 2**31 - 1))
        found.append((key, base, delta))
        ends[key] = base + delta + 1
    return found


def as_rows(batches: Batches) -> Rows:
    return rows_of(
        b"".join(ROW.pack(*key, base, delta, 0, 0, 0) for key, base, delta in batches)
    )


def naive(
    batches: Batches,
) -> dict[TopicPartition, Range]:
    found: dict[TopicPartition, Range] = {}
    for key, base, delta in batches:
        found[key] = (found.get(key, (base, 0))[0], base + delta + 1)
    return found


def check_same(packed: PackedRanges, known: dict[TopicPartition, Range]) -> None:
    assert len(packed) == len(known)
    assert dict(packed.items()) == known
    assert list(packed) == sorted(known)
    assert list(packed.values()) == [known[key] for key in packed]
    for key, found in known.items():
        assert key in packed
        assert packed[key] == packed.get(key) == found
    for key in ((topic, 6) for topic, _ in known):
        assert key not in packed
    assert packed.get(NOBODYS) is None
    with pytest.raises(KeyError):
        packed[NOBODYS]


@given(segments())
def test_the_ranges_of_rows_span_from_the_first_to_behind_the_last(
    batches: Batches,
) -> None:
    check_same(ranges_of(as_rows(batches)), naive(batches))


@given(RANGES)
def test_packed_ranges_are_what_the_dict_says(
    known: dict[TopicPartition, Range],
) -> None:
    check_same(pack_ranges(known), known)
    assert pack_ranges(known) == known


@given(segments(), st.integers(0, 30))
def test_ranges_widen_over_what_follows(batches: Batches, cut: int) -> None:
    known = naive(batches[:cut])
    widen(known, as_rows(batches[cut:]))
    assert known == naive(batches)
    widen(known, as_rows(batches[cut:]))  # they are in it already
    assert known == naive(batches)
