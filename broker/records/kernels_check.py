"""The loop that walks a produced batch before it is kept, compiled.

What is wrong with a batch stops the walk; what its topic may object to (a missing key,
a time) is only seen, once for all records, and told.
"""

from typing import Final

import numpy as np
from numba import types

from broker.records.kernels import (
    BAD_END,
    BAD_OFFSET,
    BAD_TIMESTAMP,
    BYTES,
    OK,
    compiled,
    in_time,
    read_record,
)

NO_KEY: Final = 1
OUT_OF_TIME: Final = 2
SEEN: Final = 7
"""How many numbers ``check_records`` takes down."""

_NO_TIMESTAMP: Final = -1
_PLACE = types.UniTuple(types.int64, 2)
_SEEN = types.Array(types.int64, 1, "C")
_FAULTS = types.Array(types.int64, 2, "C")


@compiled()
def _see(seen, i, timestamp, key_length):  # type: ignore[no-untyped-def]
    """Take down of a record what ``check_records`` tells of all of them."""
    if key_length < 0:
        if seen[0] == 0:
            seen[1] = i
        seen[0] += 1
    if i == 0 or timestamp > seen[4]:
        seen[4], seen[5] = timestamp, i
    if timestamp != _NO_TIMESTAMP and (seen[3] < 0 or timestamp < seen[2]):
        seen[2], seen[3] = timestamp, i


@compiled(_PLACE(BYTES, types.int64, types.int64, types.int64, types.int64, _SEEN))
def check_records(b, at, end, count, base_timestamp, seen):  # type: ignore[no-untyped-def]
    """Walk the records of a produced batch, which number 0, 1, 2 ... to its end.

    ``seen``, seven zeros, becomes: number of null keys, the first of them; oldest
    timestamp that is one and its record, which is -1 if there is none; newest
    timestamp and its record; number of headers. Returns (code, index of the record at
    fault).
    """
    out = np.zeros(8, np.int64)
    seen[3] = -1
    for i in range(count):
        at, code = read_record(b, at, end, out)
        if code != OK:
            return code, i
        if out[1] != i:
            return BAD_OFFSET, i
        if not in_time(base_timestamp, out[0]):
            return BAD_TIMESTAMP, i
        seen[6] += out[7]
        _see(seen, i, base_timestamp + out[0], out[3])
    if at != end:
        return BAD_END, count
    return OK, count


@compiled(
    types.int64(
        BYTES, types.int64, types.int64, types.int64, types.int64, types.boolean,
        types.int64, types.int64, _FAULTS,
    )
)  # fmt: skip
def find_faults(  # type: ignore[no-untyped-def]
    b, at, end, count, base_timestamp, needs_keys, oldest, newest, faults
):
    """The records of a sound batch that their topic does not take; returns how many.

    A column of ``faults`` becomes (record, what is wrong, timestamp), as long as there
    is room. A record with two faults is named for its key.
    """
    out = np.zeros(8, np.int64)
    found = np.int64(0)
    for i in range(count):
        at, _ = read_record(b, at, end, out)
        timestamp = base_timestamp + out[0]
        what = 0
        if needs_keys and out[3] < 0:
            what = NO_KEY
        elif timestamp != _NO_TIMESTAMP and not oldest <= timestamp <= newest:
            what = OUT_OF_TIME
        if what != 0:
            if found < faults.shape[1]:
                faults[0, found], faults[1, found], faults[2, found] = (
                    i,
                    what,
                    timestamp,
                )
            found += 1
    return found
