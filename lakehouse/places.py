"""Rows as places in memory: what makes record batches of them, without a copy between.

The problem: Arrow's column of bytes is one piece of memory, so whatever a file has in
pages is copied once more for it. The idea: a table of numbers that says for each row
what its numbers are and where its bytes lie, whoever holds these.

The price: an address says nothing of what it points to. Who makes places has proved
them, and holds the memory as long as they are used.
"""

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

OFFSET: Final = 0
TIMESTAMP: Final = 1
KIND: Final = 2
KEY_AT: Final = 3
KEY_LENGTH: Final = 4
VALUE_AT: Final = 5
VALUE_LENGTH: Final = 6
HEADERS_AT: Final = 7
HEADER_COUNT: Final = 8
ROW_FIELDS: Final = 9

Ints = npt.NDArray[np.int64]


class Places(NamedTuple):
    """``rows``: (ROW_FIELDS, n), in order of offsets; timestamps in ms, ``KIND`` 1 for
    LogAppendTime and else 0, lengths -1 for null. ``headers``: (4, h), the place and
    length of each header's key and value. Places count from ``bases``: the addresses
    of keys, values, headers' keys and their values. ``held``: whose memory that is."""

    rows: Ints
    headers: Ints
    bases: tuple[int, int, int, int]
    held: Any
