"""Numbers out of Roaring bitmaps: whatever shape they have, and never too many."""

import struct

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakehouse.files.roaring import MAGIC, numbers_of
from tests.support.bitmaps import bitmap

SHAPES = {
    "nothing": [],
    "a list": [0, 3, 65_535, 65_536, 1 << 31],
    "many": list(range(0, 20_000, 2)),
    "a full container": list(range(65_536, 131_072)),
    "five containers": [n << 16 for n in range(5)],
    "above 32 bits": [5, (1 << 32) + 5, (7 << 32) + 70_000],
}


@pytest.mark.parametrize("runs", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_numbers_come_back_as_they_went_in(shape: str, runs: bool) -> None:
    wanted = SHAPES[shape]
    assert numbers_of(bitmap(wanted, runs=runs), len(wanted)).tolist() == wanted


@given(st.sets(st.integers(0, (1 << 40) - 1), max_size=60), st.booleans())
def test_any_numbers_come_back(numbers: set[int], runs: bool) -> None:
    found = numbers_of(bitmap(numbers, runs=runs), len(numbers))
    assert found.tolist() == sorted(numbers)


@pytest.mark.parametrize("runs", [False, True])
def test_what_is_cut_off_is_refused_wherever_it_is(runs: bool) -> None:
    whole = bitmap(SHAPES["a list"], runs=runs)
    for size in range(len(whole)):
        with pytest.raises(ValueError, match=r"bitmap|container|runs"):
            numbers_of(whole[:size], 5)


@pytest.mark.parametrize("count", [0, 4, 6, -1])
def test_more_or_fewer_than_the_log_says_are_refused(count: int) -> None:
    with pytest.raises(ValueError, match="numbers"):
        numbers_of(bitmap(SHAPES["a list"]), count)


@given(st.integers(0, 39), st.integers(1, 255), st.booleans())
@example(15, 128, False)  # numbers beyond what is signed
def test_a_damaged_byte_gives_an_error_or_as_many_numbers(
    at: int, flip: int, runs: bool
) -> None:
    data = bytearray(bitmap([3, 4, 7, 11, 70_000, 70_001], runs=runs))
    data[at % len(data)] ^= flip
    try:
        found = numbers_of(bytes(data), 6).tolist()
    except ValueError:
        return
    assert len(set(found)) == 6
    assert found == sorted(found)


def test_what_is_no_bitmap_is_refused() -> None:
    with pytest.raises(ValueError, match=f"not with {MAGIC}"):
        numbers_of(struct.pack("<IQ", MAGIC - 1, 0), 0)
    with pytest.raises(ValueError, match="the cookie 5"):
        numbers_of(struct.pack("<IQII", MAGIC, 1, 0, 5), 1)


def test_numbers_that_do_not_rise_are_refused() -> None:
    twice = bitmap([1])[12:]
    with pytest.raises(ValueError, match="in order"):
        numbers_of(struct.pack("<IQ", MAGIC, 2) + twice + twice, 2)
