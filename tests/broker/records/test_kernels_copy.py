"""A span lands where it should, and nothing around it moves."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from broker.records.kernels_copy import copy_bytes


@njit
def _copied(to, to_at, source, source_at, length):  # type: ignore[no-untyped-def]
    copy_bytes(to, to_at, source, source_at, length)


@given(st.binary(max_size=300), st.data())
def test_it_does_what_a_slice_assignment_does(source: bytes, data: st.DataObject):
    start = data.draw(st.integers(0, len(source)))
    length = data.draw(st.integers(0, len(source) - start))
    to_at = data.draw(st.integers(0, 20))
    wanted = bytearray(b"\xaa" * (to_at + length + 20))
    found = np.frombuffer(bytearray(wanted), np.uint8).copy()
    wanted[to_at : to_at + length] = source[start : start + length]
    _copied(found, to_at, np.frombuffer(source, np.uint8), start, length)
    assert found.tobytes() == bytes(wanted)
    again = np.frombuffer(bytearray(b"\xaa" * len(wanted)), np.uint8).copy()
    held = np.frombuffer(source, np.uint8)
    _copied(again, to_at, np.uint64(held.ctypes.data), start, length)
    assert again.tobytes() == bytes(wanted)
