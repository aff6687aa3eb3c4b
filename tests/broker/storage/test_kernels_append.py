"""What the compiled writer packs, byte for byte as the one in Python."""

import errno
import os
from typing import Any

import numpy as np
import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from broker.storage import columns, entry, kernels_append


@given(st.binary(max_size=60), st.integers(0, 2**32 - 1))
def test_the_checksum_is_that_of_the_library(data: bytes, seed: int) -> None:
    array = np.frombuffer(data, np.uint8)
    found = kernels_append.crc32c_of(array, 0, len(data), seed)
    assert int(found) == crc32c(data, seed)


def test_the_sizes_are_those_of_the_layouts() -> None:
    assert kernels_append.ENTRY_BYTES == entry.ENTRY_HEADER_BYTES
    assert kernels_append.ROW_BYTES == columns.ROW_BYTES


@pytest.mark.parametrize("length", [0, 1, 4095, 4096, 100_000])
def test_all_is_written_at_its_position(length: int) -> None:
    data = np.frombuffer(os.urandom(length), np.uint8)
    file = os.memfd_create("test")
    assert kernels_append._write_all(file, data.ctypes.data, length, 10) == 0
    assert os.pread(file, length + 100, 10) == data.tobytes()
    os.close(file)


def test_an_error_of_a_write_is_returned() -> None:
    data = np.zeros(10, np.uint8)
    assert kernels_append._write_all(-1, data.ctypes.data, 10, 0) != 0


PARTS = [np.frombuffer(os.urandom(length), np.uint8) for length in (3, 0, 5_000, 70)]
VECTOR = np.array([word for part in PARTS for word in (part.ctypes.data, len(part))])
WHOLE = b"".join(part.tobytes() for part in PARTS)


def test_parts_are_written_behind_each_other() -> None:
    file = os.memfd_create("test")
    assert kernels_append._write_parts(file, VECTOR, 4, 10, len(WHOLE)) == 0
    assert os.pread(file, 10_000, 10) == WHOLE
    os.close(file)


@pytest.mark.parametrize("room", [1, 2, 3, 2_000, 5_003, 5_010])
def test_a_short_write_is_continued_where_it_stopped(
    room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No file of this machine can be made to take a part: the call is stood in for."""
    file = os.memfd_create("test")

    def takes_a_part(number: Any, _vector: Any, _parts: Any, position: Any) -> int:
        return os.pwrite(int(number), WHOLE[:room], int(position))

    monkeypatch.setattr(kernels_append, "_pwritev", takes_a_part)
    uncompiled = kernels_append._write_parts.py_func
    assert uncompiled(file, VECTOR, 4, 10, len(WHOLE)) == 0
    assert os.pread(file, 10_000, 10) == WHOLE
    os.close(file)


def test_an_error_of_a_write_of_parts_is_returned() -> None:
    assert kernels_append._write_parts(-1, VECTOR, 4, 0, len(WHOLE)) == errno.EBADF
