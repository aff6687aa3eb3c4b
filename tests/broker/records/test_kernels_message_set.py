"""The loops' own arithmetic; what they do for message sets is in test_message_set."""

import zlib

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from broker.records import kernels_message_set as kernels
from broker.records.compression import compress
from tests.support.message_sets import message


@given(data=st.binary(max_size=300), skip=st.integers(0, 20))
def test_the_checksum_is_zlibs(data, skip) -> None:
    held = np.frombuffer(data, np.uint8)
    address = np.uint64(held.ctypes.data)
    found = kernels._crc32(address, min(skip, len(data)), len(data))
    assert int(found) == zlib.crc32(data[skip:])


def test_the_next_wrapper_is_found_behind_bare_messages() -> None:
    bare, wrapped = message(b"a"), message(compress(1, message(b"b")), 0, 1)
    data = np.frombuffer(bare + wrapped + bare, np.uint8)
    fields = np.zeros(8, np.int64)
    begin, stop = len(bare), len(bare) + len(wrapped)
    assert kernels.next_wrapper(data, 0, len(data), fields) == (begin, stop, 0)
    assert fields[1:3].tolist() == [0, 1]
    assert kernels.next_wrapper(data, stop, len(data), fields) == (
        len(data), len(data), 0,
    )  # fmt: skip


def test_totals_go_on_from_set_to_set() -> None:
    totals = np.zeros(kernels.TOTALS, np.int64)
    for stamp in (50, 70, 60):
        data = np.frombuffer(message(b"v", 1, 0, stamp), np.uint8)
        assert kernels.measure_up(data, 0, len(data), 1, totals) == (0, -1)
    assert totals[kernels.COUNT] == 3
    assert totals[kernels.BASE_TIMESTAMP] == 50
    assert totals[kernels.MAX_TIMESTAMP] == 70
