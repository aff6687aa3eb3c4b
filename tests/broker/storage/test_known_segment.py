"""A segment says the same however it was read: in pieces, to its end, or by footer."""

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from broker.ids import TopicPartition
from broker.storage.columns import ROW_TYPE, EntryColumns, Rows, rows_of
from broker.storage.known_segment import KnownSegment
from broker.storage.layout import HEADER_BLOCK_BYTES, Identity, Seal

NUMBER, END = 6, 9_000
SEAL = Seal(NUMBER, END, END, 0, 0, 77)


def a_segment() -> KnownSegment:
    return KnownSegment(Path("x"), Identity(NUMBER, 1 << 20, 5))


def some_rows(partitions: list[int]) -> Rows:
    """A batch of ten records for each of these, in order of writing."""
    rows = rows_of(bytearray(len(partitions) * ROW_TYPE.itemsize)).copy()
    for number, partition in enumerate(partitions):
        base = 10 * partitions[:number].count(partition)
        rows[number] = (1, partition, base, 9, number, 4144 + 200 * number, 150)
    return rows


def as_lists(columns: dict[TopicPartition, EntryColumns]) -> dict[Any, Any]:
    return {
        key: (
            some.base.tolist(), some.last.tolist(), some.max_timestamp.tolist(),
            some.location.tolist(), some.length.tolist(),
        )
        for key, some in columns.items()
    }  # fmt: skip


@given(st.lists(st.integers(0, 3), max_size=20), st.lists(st.integers(0, 20)))
def test_what_is_read_in_pieces_is_what_the_footer_says(
    partitions: list[int], cuts: list[int]
) -> None:
    rows = some_rows(partitions)
    whole, pieces = a_segment(), a_segment()
    whole.take_footer(rows, END)
    assert whole.is_read
    assert whole.is_in_footer
    for first, end in zip([0, *sorted(cuts)], [*sorted(cuts), 20], strict=True):
        pieces.add(rows[first:end])
        seen = pieces.columns()
        assert sum(map(len, seen.values())) == len(rows[:end])
    pieces.end = END
    for each in (whole, pieces):
        each.seal = SEAL
    assert pieces.info() == whole.info()
    assert dict(whole.info().ranges) == {
        (1, partition): (0, 10 * partitions.count(partition))
        for partition in partitions
    }
    assert as_lists(pieces.columns()) == as_lists(whole.columns(rows))
    pieces.finish()
    assert pieces.is_read
    assert pieces.info() == whole.info()
    assert as_lists(pieces.columns()) == as_lists(whole.columns(rows))


@given(st.lists(st.integers(0, 3), max_size=20))
def test_of_one_that_was_read_in_pieces_the_footer_may_take_the_place(
    partitions: list[int],
) -> None:
    known, rows = a_segment(), some_rows(partitions)
    known.add(rows)
    known.end, known.seal = END, SEAL
    before = known.info(), as_lists(known.columns())
    known.finish()
    assert not known.is_in_footer
    known.take_footer(rows, END)
    assert known.is_in_footer
    assert (known.info(), as_lists(known.columns(rows))) == before


def test_a_batch_in_a_footer_takes_no_memory() -> None:
    count, read = 50_000, a_segment()
    read.take_footer(some_rows([0]), END)
    known = a_segment()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        known.take_footer(np.repeat(some_rows([0, 1]), count // 2), END)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert known.batches == count
    assert after - before < count


def test_what_others_were_told_does_not_change_under_them() -> None:
    known, rows = a_segment(), some_rows([0, 1, 0])
    known.add(rows[:2])
    told = known.info()
    known.add(rows[2:])
    assert dict(told.ranges) == {(1, 0): (0, 10), (1, 1): (0, 10)}
    assert dict(known.info().ranges) == {(1, 0): (0, 20), (1, 1): (0, 10)}
    assert (told.sealed, told.batches, told.bytes) == (False, 0, HEADER_BLOCK_BYTES)


def test_one_without_a_whole_batch_holds_something_if_it_is_damaged() -> None:
    known = a_segment()
    known.finish()
    assert (known.holds_anything, known.columns(), known.info().ranges) == (0, {}, {})
    known.holes.append((HEADER_BLOCK_BYTES, END))
    assert known.holds_anything
