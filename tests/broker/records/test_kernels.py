"""The compiled readers against what Python itself would say."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.records import kernels
from tests.support.batches import Record, make_batch, varint


def array(data: bytes) -> Any:
    return np.frombuffer(data, np.uint8)


def at_address(kernel: Any, data: bytes, end: int) -> Any:
    """What a loop says of the bytes, which it is given by their address."""
    held = array(data)
    return kernel(np.uint64(held.ctypes.data), 0, end)


@settings(max_examples=200, deadline=None)
@given(st.integers(-(2**31), 2**31 - 1))
def test_varints_read_back(value: int) -> None:
    data = varint(value)
    assert at_address(kernels.read_varint, data, len(data)) == (value, len(data))
    assert at_address(kernels.read_varlong, data, len(data)) == (value, len(data))


@settings(max_examples=200, deadline=None)
@given(st.integers(-(2**63), 2**63 - 1))
def test_varlongs_read_back(value: int) -> None:
    data = varint(value)
    assert at_address(kernels.read_varlong, data, len(data)) == (value, len(data))
    for end in range(len(data)):
        assert at_address(kernels.read_varlong, data, end)[1] == -1


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff" * 5, b"\x80" * 11])
def test_varints_that_do_not_end_or_fit_are_refused(data: bytes) -> None:
    assert at_address(kernels.read_varint, data, len(data))[1] == -1


def test_varlongs_of_more_than_64_bits_are_refused() -> None:
    data = b"\xff" * 9 + b"\x02"
    assert at_address(kernels.read_varlong, data, len(data))[1] == -1


@settings(max_examples=500, deadline=None)
@given(
    st.one_of(
        st.binary(max_size=8),
        st.text(max_size=4).map(lambda text: text.encode("utf-8")),
        st.tuples(
            st.sampled_from([0xC1, 0xC2, 0xE0, 0xED, 0xEF, 0xF0, 0xF4, 0xF5]),
            st.binary(max_size=3),
        ).map(lambda pair: bytes([pair[0]]) + pair[1]),
    )
)
def test_utf8_is_what_python_says_it_is(data: bytes) -> None:
    try:
        data.decode("utf-8")
        expected = True
    except UnicodeDecodeError:
        expected = False
    assert at_address(kernels.is_utf8, data, len(data)) == expected


@settings(max_examples=100, deadline=None)
@given(st.integers(-(2**63), 2**63 - 1), st.sampled_from([1, 2, 4, 8]))
def test_big_endian_integers(value: int, size: int) -> None:
    limit = 1 << (8 * size - 1)
    value = (value + limit) % (2 * limit) - limit
    data = value.to_bytes(size, "big", signed=True)
    assert at_address(kernels.big_endian, data, size) == value


def test_a_scan_stops_when_the_rows_are_full_and_goes_on() -> None:
    one = make_batch([Record(b"%d" % i) for i in range(10)], 100)
    arena = array(bytes(one) * 2)
    starts = np.array([0, len(one), 2 * len(one)], np.int64)
    progress = np.zeros(5, np.int64)
    offsets: list[int] = []
    for _ in range(7):
        rows = np.empty((9, 3), np.int64)
        filled = kernels.scan(arena, starts, progress, 0, 2**63 - 1, rows)
        offsets += rows[0, :filled].tolist()
    assert offsets == [*range(100, 110)] * 2
    assert progress.tolist()[0::4] == [2, kernels.OK]


def test_why_is_said_for_every_code() -> None:
    codes = {value for name, value in vars(kernels).items() if name.startswith("BAD_")}
    assert codes == kernels.WHY.keys()
