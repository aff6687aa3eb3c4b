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


@compiled(_PLACE(BYTES, types.int64, types.int64, types.int64, types.int64, _SEEN))
def check_records(b, at, end, count, base_timestamp, seen):  # type: ignore[no-untyped-def]
    """Walk the records of a produced batch, which number 0, 1, 2 ... to its end.

    ``seen``, seven zeros, becomes: number of null keys, the first of them; oldest
    timestamp that is one and its record, which is -1 if there is none; newest
    timestamp and its record; number of headers. Returns (code, index of the record at
    fault).
    """
    data = b.ctypes.data
    nulls, null_at, headers = 0, 0, 0
    oldest, oldest_at, newest, newest_at = 0, -1, 0, 0
    code = OK
    for i in range(count):
        at, code, fields = read_record(data, at, end)
        if code == OK and fields[1] != i:
            code = BAD_OFFSET
        if code == OK and not in_time(base_timestamp, fields[0]):
            code = BAD_TIMESTAMP
        if code != OK:
            count = i
            break
        timestamp = base_timestamp + fields[0]
        if fields[3] < 0:
            null_at = null_at if nulls else i
            nulls += 1
        if i == 0 or timestamp > newest:
            newest, newest_at = timestamp, i
        if timestamp != _NO_TIMESTAMP and (oldest_at < 0 or timestamp < oldest):
            oldest, oldest_at = timestamp, i
        headers += fields[7]
    if code == OK and at != end:
        code = BAD_END
    seen[0], seen[1], seen[2], seen[3] = nulls, null_at, oldest, oldest_at
    seen[4], seen[5], seen[6] = newest, newest_at, headers
    return code, count


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
    data = b.ctypes.data
    found = np.int64(0)
    for i in range(count):
        at, _, fields = read_record(data, at, end)
        timestamp = base_timestamp + fields[0]
        what = 0
        if needs_keys and fields[3] < 0:
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
