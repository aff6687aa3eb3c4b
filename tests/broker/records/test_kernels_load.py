"""A compiled loop loads the bytes of an array by its address."""

import numpy as np
import pytest
from numba import njit
from numba.core.errors import TypingError

from broker.records.kernels_load import byte_at


@njit
def loaded(array, at):  # type: ignore[no-untyped-def]
    return byte_at(array.ctypes.data, at)


def test_each_byte_is_loaded_as_a_number_from_0_to_255() -> None:
    array = np.arange(256, dtype=np.uint8)
    assert [loaded(array, i) for i in range(256)] == list(range(256))


def test_an_array_may_begin_anywhere() -> None:
    array = np.arange(16, dtype=np.uint8)[3:]
    assert loaded(array, 0) == 3


def test_an_array_in_place_of_its_address_does_not_compile() -> None:
    with pytest.raises(TypingError):
        njit(lambda array: byte_at(array, 0))(np.zeros(1, np.uint8))
