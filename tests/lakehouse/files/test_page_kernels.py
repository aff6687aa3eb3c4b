"""The loops over pages against plain readers; on any bytes they stay inside."""

import struct
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.files import page_kernels as kernels
from lakehouse.files.page_kernels import ODD

BEFORE, BEHIND = b"\xff" * 9, b"\x81" * 40
"""What stands around the bytes that are read: a loop that leaves them finds it."""
INT64 = st.integers(-(2**63), 2**63 - 1)


def framed(
    data: bytes,
) -> tuple["np.ndarray[tuple[int], np.dtype[np.uint8]]", int, int]:
    whole = np.frombuffer(BEFORE + data + BEHIND, np.uint8)
    return whole, len(BEFORE), len(BEFORE) + len(data)


def numbers(count: int) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    return np.full(count, 77, np.int64)


def varint(value: int) -> bytes:
    low, rest = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + varint(rest) if rest else bytes([low])


def zigzag(value: int) -> bytes:
    return varint((value << 1) ^ (value >> 63) if value >= 0 else -2 * value - 1)


def packed(values: list[int], width: int) -> bytes:
    whole = sum(value << (width * n) for n, value in enumerate(values))
    return whole.to_bytes((len(values) * width + 7) // 8, "little")


@st.composite
def run_list(draw: st.DrawFn) -> tuple[int, list[int], bytes]:
    """(Width, numbers, their bytes): runs and packed ones, as a writer has them."""
    width = draw(st.integers(0, 32))
    value, found, data = st.integers(0, 2**width - 1), [], b""
    for is_run in draw(st.lists(st.booleans(), min_size=1, max_size=5)):
        if is_run:
            count, one = draw(st.integers(1, 100)), draw(value)
            found += [one] * count
            data += varint(count << 1) + one.to_bytes((width + 7) // 8, "little")
        else:
            groups = draw(st.integers(1, 4))
            some = [draw(value) for _ in range(8 * groups)]
            found += some
            data += varint(groups << 1 | 1) + packed(some, width)
    return width, found, data


@given(run_list(), st.integers(0, 7))
def test_runs_are_those_of_the_writer(one: tuple[int, list[int], bytes], cut: int):
    width, found, data = one
    whole, at, end = framed(data)
    out = numbers(len(found))
    assert kernels.runs(whole, at, end, width, out) == end
    assert out.tolist() == found
    for wrong in (numbers(len(found) + 8), numbers(max(0, len(found) - 101))):
        assert kernels.runs(whole, at, end, width, wrong) == ODD
    assert kernels.runs(whole, at, end - 1 - min(cut, end - at - 1), width, out) == ODD


def test_the_last_packed_ones_may_be_more_than_there_are_rows() -> None:
    whole, at, end = framed(varint(1 << 1 | 1) + packed([1, 0, 1, 1, 0, 0, 0, 0], 1))
    out = numbers(3)
    assert kernels.runs(whole, at, end, 1, out) == end
    assert out.tolist() == [1, 0, 1]


@given(st.binary(max_size=60), st.integers(0, 32), st.integers(0, 300))
def test_runs_of_any_bytes_end_where_they_should(data: bytes, width: int, count: int):
    whole, at, end = framed(data)
    out = numbers(count + 5)
    assert kernels.runs(whole, at, end, width, out[:count]) in (ODD, end)
    assert out[count:].tolist() == [77] * 5


@given(st.lists(INT64, min_size=1, max_size=300), st.sampled_from([(128, 4), (256, 8)]))
def test_differences_add_up(found: list[int], shape: tuple[int, int]) -> None:
    data, is_wide = deltas_of(found, *shape)
    whole, at, end = framed(data)
    out = numbers(len(found))
    if is_wide:
        assert kernels.deltas(whole, at, end, out) == ODD
        return
    assert kernels.deltas(whole, at, end, out) == end
    assert out.tolist() == found
    assert kernels.deltas(whole, at, end - 1, out) == ODD
    assert kernels.deltas(whole, at, end + 1, out) == ODD
    assert kernels.deltas(whole, at, end, numbers(len(found) + 1)) == ODD


@given(st.integers(0, 2**62), st.lists(st.integers(-5, 10**9), max_size=300))
def test_differences_of_neighbours_add_up(first: int, steps: list[int]) -> None:
    found = [first + sum(steps[:n]) for n in range(len(steps) + 1)]
    data, _ = deltas_of(found, 128, 4)
    whole, at, end = framed(data)
    out = numbers(len(found))
    assert kernels.deltas(whole, at, end, out) == end
    assert out.tolist() == found


def deltas_of(found: list[int], block: int, miniblocks: int) -> tuple[bytes, bool]:
    """As ``Encodings.md`` has it; and whether one of them is left to Arrow."""
    data = varint(block) + varint(miniblocks) + varint(len(found)) + zigzag(found[0])
    steps = [
        (after - before + 2**63) % 2**64 - 2**63 for before, after in pairwise(found)
    ]
    size, is_wide = block // miniblocks, False
    for start in range(0, len(steps), block):
        part = steps[start : start + block]
        least = min(part)
        over = [(step - least) % 2**64 for step in part]
        minis = [over[n : n + size] for n in range(0, len(over), size)]
        widths = [max(mini).bit_length() for mini in minis]
        is_wide |= max(widths) > 56
        data += zigzag(least) + bytes(widths).ljust(miniblocks, b"\0")
        for mini, width in zip(minis, widths, strict=True):
            data += packed([*mini, *[0] * (size - len(mini))], width)
    return data, is_wide


@given(st.binary(max_size=80), st.integers(1, 300))
def test_differences_of_any_bytes_end_where_they_should(data: bytes, count: int):
    out = numbers(count + 5)
    for head in (b"", varint(128) + varint(4) + varint(count)):
        whole, at, end = framed(head + data)
        assert kernels.deltas(whole, at, end, out[:count]) in (ODD, end)
    assert out[count:].tolist() == [77] * 5


@given(st.lists(st.binary(max_size=300), max_size=20))
def test_byte_arrays_lie_where_they_are(found: list[bytes]) -> None:
    data = b"".join(struct.pack("<I", len(one)) + one for one in found)
    whole, at, end = framed(data)
    starts, lengths = numbers(len(found)), numbers(len(found))
    assert kernels.byte_arrays(whole, at, end, 1_000, starts, lengths) == end
    places = zip((starts - 1_000).tolist(), lengths.tolist(), strict=True)
    assert [bytes(whole[s : s + n]) for s, n in places] == found
    more = numbers(len(found) + 1), numbers(len(found) + 1)
    assert kernels.byte_arrays(whole, at, end, 0, *more) == ODD
    if found:
        assert kernels.byte_arrays(whole, at, end - 1, 0, starts, lengths) == ODD
        fewer = starts[1:], lengths[1:]
        assert kernels.byte_arrays(whole, at, end, 0, *fewer) == ODD


@given(st.binary(max_size=80), st.integers(0, 30))
def test_byte_arrays_of_any_bytes_lie_inside(data: bytes, count: int) -> None:
    whole, at, end = framed(data)
    starts, lengths = numbers(count), numbers(count)
    if kernels.byte_arrays(whole, at, end, 0, starts, lengths) == end:
        assert all(
            at <= s <= s + n <= end for s, n in zip(starts, lengths, strict=True)
        )


@pytest.mark.parametrize("length", [2**31 - 1, 2**31, 2**32 - 1])
def test_a_byte_array_of_gigabytes_is_odd(length: int) -> None:
    whole, at, end = framed(struct.pack("<I", length) + b"some")
    assert kernels.byte_arrays(whole, at, end, 0, numbers(1), numbers(1)) == ODD


def test_what_a_dictionary_does_not_have_is_odd() -> None:
    known = np.array([5, 6]), np.array([50, 60])
    found = numbers(3), numbers(3)
    assert kernels.look_up(np.array([1, 0, 1]), *known, *found) == 3
    assert [one.tolist() for one in found] == [[6, 5, 6], [60, 50, 60]]
    assert kernels.look_up(np.array([0, 2, 0]), *known, *found) == ODD
    assert kernels.look_up(np.array([0, 0, 0]), numbers(0), numbers(0), *found) == ODD


def test_rows_without_a_value_have_none() -> None:
    found = numbers(4), numbers(4)
    levels, some = np.array([0, 1, 0, 1]), (np.array([8, 9]), np.array([0, 3]))
    assert kernels.spread(levels, *some, *found) == 2
    assert [one.tolist() for one in found] == [[0, 8, 0, 9], [-1, 0, -1, 3]]


def test_offsets_that_do_not_rise_are_told() -> None:
    millis, micros = numbers(3), np.array([1_999, -1, -1_000])
    assert kernels.rise(np.array([1, 2, 9]), micros, millis) == 1
    assert millis.tolist() == [1, -1, -1]
    assert kernels.rise(np.array([1, 1, 9]), micros, millis) == 0
    assert kernels.rise(np.array([3, 4, 2]), micros, millis) == 0


@given(st.binary(max_size=80))
def test_a_header_of_any_bytes_ends_inside(data: bytes) -> None:
    whole, at, end = framed(data)
    page = numbers(kernels.PAGE_FIELDS)
    found = kernels.find_page(whole, at, end, page)
    assert found == ODD or at < found <= end


def test_a_header_says_what_it_says() -> None:
    inner = b"\x15\x0e\x15\x00\x15\x06\x15\x06\x1c\x18\x01z\x16\x02\x11\x00\x00"
    header = b"\x15\x00\x15\x14\x15\x12\x15" + zigzag(-2) + b"\x1c" + inner + b"\x00"
    whole, at, end = framed(header)
    page = numbers(kernels.PAGE_FIELDS)
    assert kernels.find_page(whole, at, end, page) == end
    assert page.tolist() == [0, end, 9, 10, 2**32 - 2, 1, 7, 0, 3]
    for cut in range(at, end):
        assert kernels.find_page(whole, at, cut, page) == ODD
