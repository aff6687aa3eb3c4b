"""Columns against lists."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.storage.columns import (
    ROW,
    ROW_TYPE,
    EntryColumns,
    Unordered,
    copies_of,
    group,
    group_all,
    join,
    newest_copies,
    rows_of,
)
from broker.storage.entry import location_of

Row = tuple[int, int, int, int, int, int, int]


@st.composite
def logs(draw: st.DrawFn) -> list[Row]:
    """Rows as a segment has them: offsets of a partition and positions only grow."""
    ends: dict[tuple[int, int], int] = {}
    rows = []
    position = 4096
    for _ in range(draw(st.integers(0, 40))):
        key = draw(st.sampled_from([(1, 0), (1, 1), (2, 0), (2**32 - 1, 7)]))
        base = ends.get(key, 0) + draw(st.integers(0, 3))
        delta, length = draw(st.integers(0, 9)), draw(st.integers(61, 500))
        rows.append((*key, base, delta, draw(st.integers(-1, 2**50)), position, length))
        ends[key] = base + delta + 1
        position += length + 48
    return rows


def footer(rows: list[Row]) -> bytes:
    return b"".join(ROW.pack(*row) for row in rows)


def as_list(columns: EntryColumns) -> list[tuple[int, ...]]:
    return list(
        zip(
            columns.base.tolist(),
            columns.last.tolist(),
            columns.max_timestamp.tolist(),
            columns.location.tolist(),
            columns.length.tolist(),
            strict=True,
        )
    )


def naive(
    rows: list[Row], key: tuple[int, int], sequence: int
) -> list[tuple[int, ...]]:
    return [
        (base, base + delta, stamp, location_of(sequence, position), length)
        for topic, partition, base, delta, stamp, position, length in rows
        if (topic, partition) == key
    ]


@given(logs())
def test_grouping_keeps_every_batch_in_order(rows: list[Row]) -> None:
    grouped = group(rows_of(footer(rows)), 3)
    assert grouped.keys() == {row[:2] for row in rows}
    for key, columns in grouped.items():
        assert as_list(columns) == naive(rows, key, 3)
        assert len(columns) == len(naive(rows, key, 3))


@given(logs(), st.integers(0, 40))
def test_segments_are_joined_in_order(rows: list[Row], cut: int) -> None:
    parts = [group(rows_of(footer(half)), 1) for half in (rows[:cut], rows[cut:])]
    for key in parts[0].keys() & parts[1].keys():
        joined = join([parts[0][key], parts[1][key]])
        assert as_list(joined) == naive(rows, key, 1)


@given(st.lists(logs(), max_size=4))
def test_all_segments_are_grouped_at_once(segments: list[list[Row]]) -> None:
    numbered = [(rows, number) for number, rows in enumerate(segments, 3)]
    grouped = group_all([(rows_of(footer(rows)), number) for rows, number in numbered])
    assert grouped.keys() == {row[:2] for rows in segments for row in rows}
    for key, columns in grouped.items():
        each = [naive(rows, key, number) for rows, number in numbered]
        assert as_list(columns) == [one for rows in each for one in rows]


def some_rows(*rows: tuple[int, int, int, int]) -> np.ndarray:
    """Partition, base, last delta, position of each."""
    return np.array(
        [(1, part, base, delta, 0, place, 100) for part, base, delta, place in rows],
        dtype=ROW_TYPE,
    )


def test_of_copies_the_newest_counts_and_what_is_out_of_order_goes() -> None:
    old = some_rows((0, 0, 9, 4200), (1, 0, 0, 4300), (2, 0, 9, 4400))
    carried = some_rows((2, 0, 9, 4200), (2, 10, 0, 4300))
    newer = some_rows((0, 10, 0, 4200), (1, 7, 0, 4300), (2, 11, 0, 4400))
    stale = some_rows((0, 0, 9, 4200), (1, 3, 0, 4300))
    kept = newest_copies([(old, 4), (carried, 5), (newer, 6), (stale, 9)])
    places = [part["position"].tolist() for part in kept]
    assert places == [[4200, 4300], [4200, 4300], [4200, 4300, 4400], []]


def test_a_segment_that_shares_batches_with_earlier_ones_is_a_copy_of_them() -> None:
    first = some_rows((0, 0, 9, 4200), (1, 0, 0, 4300))
    second = some_rows((0, 10, 9, 4200), (1, 1, 0, 4300))
    copied = some_rows((0, 0, 9, 4200), (0, 10, 9, 4300))
    again = some_rows((0, 10, 9, 4200), (1, 5, 0, 4300))
    other = some_rows((0, 0, 8, 4200), (2, 0, 9, 4300))
    log = [(first, 4), (second, 6), (copied, 7), (other, 8), (again, 13)]
    assert copies_of(log) == {7: ({4, 6}, True), 13: ({6, 7}, False)}
    assert copies_of(log[:2]) == {}


def test_a_batch_that_is_there_twice_is_out_of_order() -> None:
    first, second = some_rows((0, 0, 9, 4200)), some_rows((0, 9, 9, 4200))
    with pytest.raises(Unordered):
        group_all([(first, 4), (second, 6)], checked=True)
    other = some_rows((1, 9, 9, 4200))
    assert len(group_all([(first, 4), (other, 6)], checked=True)) == 2


@given(st.data())
def test_a_copy_of_any_part_of_a_log_hides_no_batch(data: st.DataObject) -> None:
    """As a carry leaves it that ended anywhere: the first batches are there twice."""
    bases = range(data.draw(st.integers(1, 20)))
    segments: dict[int, list[int]] = {}
    for base in bases:
        number = data.draw(st.integers(1, 4)) + max(segments, default=0)
        segments.setdefault(2 * number if base % 3 == 0 else max(segments), [])
        segments[max(segments)].append(base)
    copied = sorted(data.draw(st.sets(st.sampled_from(bases))))
    behind = data.draw(st.sampled_from(sorted(segments)))
    copied = [base for base in copied if base <= segments[behind][-1]]
    segments[behind + 1] = copied[: data.draw(st.integers(0, len(copied)))]
    log = [
        (some_rows(*((0, base, 0, 4200 + base) for base in segments[number])), number)
        for number in sorted(segments)
    ]
    kept = newest_copies(log)
    assert [int(base) for some in kept for base in some["base"]] == list(bases)
