"""Columns come out as Arrow's own functions give them."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.plain import absent, column_of, numbers

VALUES = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=40)


@given(VALUES, st.integers(0, 10))
def test_numbers_of_slices_and_chunks(values: list[int], start: int) -> None:
    column = pa.array(values, pa.int64())
    assert numbers(column.slice(start)).tolist() == values[start:]
    chunks = pa.chunked_array([column, column.slice(start)], pa.int64())
    assert numbers(chunks).tolist() == values + values[start:]
    assert numbers(pa.chunked_array([], pa.int64())).tolist() == []
    assert column_of(np.array(values, np.int64), pa.int64()).equals(column)


@given(st.lists(st.none() | st.binary(max_size=3), max_size=40), st.integers(0, 10))
def test_what_is_absent(values: list[bytes | None], start: int) -> None:
    column = pa.array(values, pa.binary()).slice(start)
    assert absent(column).tolist() == [value is None for value in values[start:]]


def test_a_null_or_another_width_is_refused() -> None:
    with pytest.raises(ValueError, match="lacks a number"):
        numbers(pa.array([1, None], pa.int64()))
    with pytest.raises(ValueError, match="a column of int32"):
        numbers(pa.chunked_array([pa.array([1], pa.int32())]))
