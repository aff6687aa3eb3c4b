"""Batches share their segment's columns, and are no others for that."""

import tracemalloc

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from broker.ids import TopicNumber, TopicPartition
from broker.records.kinds import Kinds
from broker.storage.columns import ROW_TYPE, Rows, group
from broker.storage.entry import location_of
from jobs.batches import Batches, Places, batches_of
from jobs.chain import Chain

SEQUENCE = 7
Lists = list[tuple[int, ...]]


def as_lists(batches: Batches) -> Lists:
    columns = (batches.base, batches.last, batches.position, batches.length)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def rows_of(lengths: list[tuple[int, int]], sequence: int) -> Rows:
    """A segment's rows: of each (partition, bytes), one behind the other."""
    rows = np.zeros(len(lengths), ROW_TYPE)
    for at, (partition, length) in enumerate(lengths):
        base = sequence * 100 + at
        rows[at] = (1, partition, base, at % 3, 0, at * 1000, length)
    return rows


def sharing(lists: Lists) -> Batches:
    """Batches that lie between others in columns which they share."""
    around = [(0, 0, 0, 0), *lists, (9, 9, 9, 9)]
    places = Places.of(*np.array(around, np.int64).reshape(-1, 4).T)
    return Batches(SEQUENCE, "s", places, 1, 1 + len(lists))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(61, 99)), max_size=30))
def test_each_partition_has_its_own_rows(lengths: list[tuple[int, int]]) -> None:
    rows = rows_of(lengths, SEQUENCE)
    found = batches_of(SEQUENCE, "s", group(rows, SEQUENCE))
    expected: dict[TopicPartition, Lists] = {}
    for _, partition, base, delta, _, position, length in rows.tolist():
        key = TopicNumber(1), partition
        expected.setdefault(key, []).append((base, base + delta, position, length))
    assert {key: as_lists(some) for key, some in found.items()} == expected
    assert all(one.sequence == SEQUENCE and one.store == "s" for one in found.values())


def test_a_place_is_one_of_the_segment_whatever_its_number() -> None:
    rows = rows_of([(0, 70)] * 3, SEQUENCE)
    columns = group(rows, SEQUENCE)
    (location,) = (some.location.tolist() for some in columns.values())
    assert location[0] == location_of(SEQUENCE, 0)
    (found,) = batches_of(SEQUENCE, "s", columns).values()
    assert found.position.tolist() == [0, 1000, 2000]


def test_numbers_that_are_wide_stay_so() -> None:
    wide = np.array([1 << 40], np.int64)
    one = np.array([1], np.int64)
    batches = Batches.all_of(SEQUENCE, "", Places.of(one, one + wide, wide, wide))
    assert as_lists(batches) == [(1, 1 + (1 << 40), 1 << 40, 1 << 40)]


@given(st.data())
def test_what_is_cut_twice_is_what_a_list_would_give(data: st.DataObject) -> None:
    lists: Lists = [(at, at + 1, at * 10, 70 + at) for at in range(0, 40, 2)]
    kinds = Kinds(*(np.arange(20, dtype=np.int64) for _ in range(4)))  # type: ignore[arg-type]
    counts = np.array(data.draw(st.lists(st.booleans(), min_size=20, max_size=20)))
    whole = sharing(lists)
    whole = Batches(SEQUENCE, "s", whole.places, whole.first, whole.stop, kinds, counts)
    first, stop = sorted(data.draw(st.tuples(st.integers(0, 20), st.integers(0, 20))))
    offset = data.draw(st.integers(-1, 45))
    some = whole.cut(first, stop)
    kept = [at for at in range(first, stop) if lists[at][1] >= offset]
    above = some.above(offset)
    assert as_lists(above) == [lists[at] for at in kept]
    assert len(above) == len(kept)
    counted = above.counted()
    assert as_lists(counted) == [lists[at] for at in kept if counts[at]]
    assert counted.kinds is not None
    assert counted.counts is not None
    assert counted.kinds.producer.tolist() == [at for at in kept if counts[at]]
    assert counted.counts.tolist() == [True] * len(counted)


def test_a_partition_of_a_segment_takes_less_than_130_bytes() -> None:
    """A backlog of fifty gigabytes has some hundred thousand of them; 700 bytes were
    taken when each had arrays of its own."""
    partitions, segments = 200, 60
    lengths = [(at % partitions, 70) for at in range(partitions * 2)]
    chains = {at: Chain() for at in range(partitions)}
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for sequence in range(segments):
            columns = group(rows_of(lengths, sequence * 10), sequence)
            for (_, partition), some in batches_of(sequence, "s", columns).items():
                chains[partition].put(some)
        del columns
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    batches = len(lengths) * segments
    each = (after - before - 20 * batches) / (partitions * segments)
    assert each < 130
