"""The columnar index against a list of tuples."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.log.index import SEQUENCE_SHIFT, BatchIndex, Entry


def filled(*entries: tuple[int, int]) -> BatchIndex:
    """Batches of (base, last), 100 bytes each, ten to a segment."""
    index = BatchIndex()
    for at, (base, last) in enumerate(entries):
        location = (at // 10 + 1) << SEQUENCE_SHIFT | at
        index.append(base, last, 1_000 + at, location, 100)
    return index


def test_an_empty_index_has_nothing() -> None:
    index = BatchIndex()
    assert len(index) == index.find(0) == index.bytes == 0
    assert index.first_offset is None
    assert index.end_offset is None
    assert index.span(0, 100) == ([], 0, 0)
    assert index.find_timestamp(0) is None
    assert index.max_timestamp() is None
    assert index.trim_below(100) == index.release(100) == 0


def test_an_offset_inside_a_batch_finds_the_batch() -> None:
    index = filled((0, 4), (5, 9), (20, 24))
    assert [index.find(offset) for offset in (0, 4, 5, 9)] == [0, 0, 1, 1]


def test_an_offset_in_a_hole_finds_the_batch_after_it() -> None:
    index = filled((0, 4), (20, 24))
    assert index.find(10) == 1
    assert index.find(25) == 2


def test_a_span_has_whole_batches_only() -> None:
    index = filled((0, 4), (5, 9), (10, 14))
    assert index.span(0, 250) == ([(index[0].location, 100), (index[1].location, 100)],
                                  10, 200)  # fmt: skip
    assert index.span(0, 99) == ([], 0, 0)
    assert index.span(1, 99, at_least_one=True).next_offset == 10
    assert index.span(0, 10**18).bytes == 300


def test_a_span_behind_the_last_batch_is_empty_and_begins_at_the_end() -> None:
    index = filled((0, 4), (5, 9))
    assert index.span(2, 1_000, at_least_one=True) == ([], 10, 0)


def test_a_span_stops_at_the_end_offset() -> None:
    index = filled((0, 4), (5, 9), (10, 14))
    assert index.span(0, 1_000, end_offset=10).next_offset == 10
    assert index.span(0, 1_000, end_offset=5, at_least_one=True).next_offset == 5
    assert index.span(1, 1_000, end_offset=5, at_least_one=True) == ([], 5, 0)


def test_a_released_segment_leaves_the_index() -> None:
    index = filled(*[(at, at) for at in range(25)])
    assert index.release(2) == 20
    assert index.first_offset == 20
    assert index.bytes == 500
    assert index.release(1) == 0


def test_a_time_finds_the_first_batch_that_reaches_it() -> None:
    index = BatchIndex()
    for at, time in enumerate([50, 90, 60, 90, 120, 10]):
        index.append(at, at, time, at, 1)
    assert index.find_timestamp(51) == 1
    assert index.find_timestamp(51, start=2) == 2
    assert index.find_timestamp(91) == 4
    assert index.find_timestamp(121) is None
    assert index.find_timestamp(91, end=4) is None
    assert index.max_timestamp() == 4
    assert index.max_timestamp(start=5) == 5
    assert index.max_timestamp(end=4) == 1
    index.trim_below(5)
    assert index.find_timestamp(60) is None


@pytest.mark.parametrize(
    "entry", [(9, 12, 0, 99, 1), (12, 11, 0, 99, 1), (10, 12, 0, 3, 1)]
)
def test_disorder_is_our_own_mistake(entry: tuple[int, int, int, int, int]) -> None:
    index = BatchIndex()
    index.append(5, 9, 0, 3, 1)
    with pytest.raises(AssertionError):
        index.append(*entry)


def test_a_million_batches_take_tens_of_bytes_each() -> None:
    index, count = BatchIndex(), 1_000_000
    numbers, sevens = np.arange(count), np.full(count, 7)
    tracemalloc.start()
    index.extend(numbers, numbers, numbers, numbers, sevens)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(index) == count
    assert 40 * count < taken <= 48 * count
    index.append(count, count, 0, count, 7)
    assert index[count] == Entry(count, count, 0, count, 7)


BATCHES = st.lists(
    st.tuples(
        st.integers(0, 3),  # hole before
        st.integers(1, 5),  # records
        st.integers(0, 50),  # time
        st.integers(1, 300),  # bytes
        st.booleans(),  # a new segment
    ),
    max_size=40,
)


def entries_of(batches: list[tuple[int, int, int, int, bool]]) -> list[Entry]:
    entries, offset, sequence, position = [], 0, 1, 0
    for hole, count, time, length, new_segment in batches:
        offset += hole
        sequence, position = (sequence + 1, 0) if new_segment else (sequence, position)
        location = sequence << SEQUENCE_SHIFT | position
        entries.append(Entry(offset, offset + count - 1, time, location, length))
        offset, position = offset + count, position + length
    return entries


@settings(max_examples=200, deadline=None)
@given(BATCHES, st.integers(0, 40), st.data())
def test_agrees_with_a_list(
    batches: list[tuple[int, int, int, int, bool]], bulk: int, data: st.DataObject
) -> None:
    model, index = entries_of(batches), BatchIndex()
    columns = [np.array(column) for column in zip(*model[:bulk], strict=True)]
    if columns:
        index.extend(*columns)
    for entry in model[bulk:]:
        index.append(*entry)
    end = model[-1].last + 2 if model else 2
    offsets = st.integers(0, end)
    for _ in range(3):
        agree(index, model, data.draw(offsets), data.draw(offsets), data.draw)
        if data.draw(st.booleans()):
            cut = data.draw(offsets)
            index.trim_below(cut)
            model = [entry for entry in model if entry.last >= cut]
        else:
            sequence = data.draw(st.integers(0, 10))
            index.release(sequence)
            model = [e for e in model if e.location >> SEQUENCE_SHIFT > sequence]


def agree(  # type: ignore[no-untyped-def]
    index: BatchIndex, model: list[Entry], low: int, high: int, draw
) -> None:
    assert list(index) == model
    assert index.bytes == sum(entry.length for entry in model)
    assert index.holds(low) == any(entry.base == low for entry in model)
    at = next((i for i, e in enumerate(model) if e.last >= low), len(model))
    assert index.find(low) == at
    limit, at_least_one = draw(st.integers(0, 800)), draw(st.booleans())
    taken: list[Entry] = []
    for entry in model[at:]:
        fits = sum(e.length for e in taken) + entry.length <= limit
        if entry.base >= high or not (fits or (at_least_one and not taken)):
            break
        taken.append(entry)
    span = index.span(at, limit, high, at_least_one=at_least_one)
    assert span.locations == [(e.location, e.length) for e in taken]
    assert span.bytes == sum(e.length for e in taken)
    if taken:
        assert span.next_offset == taken[-1].last + 1
    touched = [e for e in model if e.last >= low and e.base < high]
    assert index.bytes_between(low, high) == sum(e.length for e in touched)
    late = [i for i, e in enumerate(model) if e.last >= low and e.max_timestamp >= 25]
    assert index.find_timestamp(25, low) == (late[0] if late else None)
    rest = model[at:]
    newest = max((e.max_timestamp for e in rest), default=None)
    found = index.max_timestamp(low)
    assert (None if found is None else index[found].max_timestamp) == newest


def test_parts_say_what_each_segment_holds() -> None:
    index = BatchIndex()
    assert list(index.parts()) == []
    for at, (sequence, stamp) in enumerate([(3, 5), (3, 9), (4, -1), (7, 2)]):
        index.append(at * 10, at * 10 + 4, stamp, (sequence << 32) + at, 100 + at)
    assert list(index.parts()) == [(3, 15, 201, 9), (4, 25, 102, -1), (7, 35, 103, 2)]
    index.release(3)
    assert list(index.parts()) == [(4, 25, 102, -1), (7, 35, 103, 2)]


def test_gaps_are_between_batches_alone() -> None:
    index = BatchIndex()
    assert index.gaps() == []
    for at, (base, last) in enumerate([(5, 9), (10, 12), (20, 20), (30, 31)]):
        index.append(base, last, 0, at, 1)
    assert index.gaps() == [(13, 20, 1, 2), (21, 30, 2, 3)]


def moved(index: BatchIndex, sequences: set[int], into: int, needed: int) -> int:
    """Carry what is needed, from an offset on, of these segments into another."""
    old = [
        entry.location
        for entry in index
        if entry.location >> SEQUENCE_SHIFT in sequences and entry.last >= needed
    ]
    new = [into << SEQUENCE_SHIFT | at for at in range(len(old))]
    return index.move(old, new, sequences)


def spaced(*entries: tuple[int, int]) -> BatchIndex:
    """As `filled`, in segments 2, 4, 6 and so on, two batches in each."""
    index = BatchIndex()
    for at, (base, last) in enumerate(entries):
        location = 2 * (at // 2 + 1) << SEQUENCE_SHIFT | at
        index.append(base, last, 1_000 + at, location, 100)
    return index


def test_batches_that_are_carried_lie_elsewhere_in_the_same_order() -> None:
    index = spaced(*[(at, at) for at in range(10)])
    before = list(index)
    assert moved(index, {4, 6}, 7, 0) == 0
    places = [entry.location >> SEQUENCE_SHIFT for entry in index]
    assert places == [2, 2, 7, 7, 7, 7, 8, 8, 10, 10]
    assert [entry._replace(location=0) for entry in index] == [
        entry._replace(location=0) for entry in before
    ]
    assert index.release(7) == 6
    assert index.first_offset == 6


def test_what_is_not_carried_is_dropped_with_all_before_it() -> None:
    index = spaced(*[(at, at) for at in range(10)])
    assert moved(index, {4, 6}, 7, 3) == 3
    assert index.first_offset == 3
    assert index.bytes == 700
    assert index.bytes_between(3, 5) == 200
    assert moved(index, {8}, 9, 99) == 5  # nothing of it is needed
    assert index.first_offset == 8
    assert moved(index, {10}, 11, 99) == 2
    assert len(index) == index.move([], [], [2]) == 0


def test_where_no_segment_is_left_nothing_is_dropped() -> None:
    index = spaced((0, 0), (1, 1))
    assert index.move([2 << SEQUENCE_SHIFT], [3 << SEQUENCE_SHIFT - 1], []) == 0
    assert index.first_offset == 0


def test_a_part_is_told_from_an_offset_on() -> None:
    index = spaced((0, 4), (5, 9), (10, 14), (15, 19))
    assert index.part_of(4, 0) == (200, 2)
    assert index.part_of(4, 15) == (100, 1)
    assert index.part_of(4, 20) == index.part_of(3, 0) == (0, 0)
    index.trim_below(5)
    assert index.part_of(2, 5) == (100, 1)
    assert index.part_of(2, 4) is None  # it had a batch that reaches this
    index.trim_below(20)
    assert index.part_of(4, 20) is None


def test_an_offset_of_no_batch_may_have_been_in_a_segment_between_its_neighbours() -> (
    None
):
    index = spaced((0, 4), (10, 14), (20, 24), (30, 34))  # two in 2, two in 4
    assert found_around(index, 5) == [2]
    assert found_around(index, 15) == [2, 3, 4]
    assert found_around(index, 35) == [4, 5, 6, 7]
    index.trim_below(20)
    assert found_around(index, 15) == [0, 1, 2, 3, 4]
    assert 6 in BatchIndex().segments_around(0)
    assert 1 << 20 in BatchIndex().segments_around(0)


def found_around(index: BatchIndex, offset: int) -> list[int]:
    """Those of eight segments."""
    return [number for number in range(8) if number in index.segments_around(offset)]
