"""Where each key was seen last, of as many keys as fit into so much memory.

The problem: a hundred million keys do not fit, and a range that ends where the table is
full, as Kafka's cleaner has it, means that all of the log is written once for each such
range. The idea: the keys are looked at in *shares* of their hashes, one share after the
other, each in the same table; what is written of the log waits until all are done. So
a clean is one write of the log, however many keys there are. How many shares there must
be turns out: where the table is full, a share becomes two.

The price: keys are read again for each share.
"""

import os
from typing import Any, Final

import numpy as np

from jobs.cleaning.kernels import NONE, find_all, hash_all, put_all

TABLE_BYTES: Final = 128 << 20
"""As Kafka's ``log.cleaner.dedupe.buffer.size``: four million keys."""
SLOT_BYTES: Final = 24
SLOTS_MIN: Final = 1 << 10
_FULL: Final = 3, 4
"""Of so many slots some are free, so that a key is found by few looks."""


class Full(Exception):
    """There are more keys than fit."""


class Latest:
    """Key -> highest offset, of one share of the keys."""

    def __init__(self, rows: int, bytes_max: int = TABLE_BYTES) -> None:
        """``rows``: no more keys than that will come."""
        wanted = max(SLOTS_MIN, rows * _FULL[1] // _FULL[0] + 1)
        slots = min(wanted, max(SLOTS_MIN, bytes_max // SLOT_BYTES))
        self._lows, self._highs = np.zeros(slots, np.uint64), np.zeros(slots, np.uint64)
        self._offsets = np.full(slots, NONE, np.int64)
        self._most = slots * _FULL[0] // _FULL[1]
        seed = np.frombuffer(os.urandom(16), np.uint64)
        self._k0, self._k1 = seed[0], seed[1]
        self._share = self._shares = 0
        self.begin(0, 1)

    def begin(self, share: int, shares: int) -> None:
        """Forget all keys; from now on those of one of so many shares count."""
        self._share, self._shares, self.keys = share, shares, 0
        self._offsets.fill(NONE)

    def put(self, keys: Any, offsets: Any) -> None:
        """Take in a column of keys, none of them null, and their offsets. Raises
        Full."""
        low, high = self._hashes(keys)
        ours = self._is_ours(high)
        if ours is not None:
            low, high, offsets = low[ours], high[ours], offsets[ours]
        tables = self._lows, self._highs, self._offsets
        used = put_all(low, high, offsets, *tables, self.keys, self._most)
        if used < 0:
            raise Full
        self.keys = int(used)

    def find(self, keys: Any) -> Any:
        """The highest offset of each key; `NONE` of those that are not there."""
        low, high = self._hashes(keys)
        found = np.empty(len(low), np.int64)
        find_all(low, high, self._lows, self._highs, self._offsets, found)
        ours = self._is_ours(high)
        return found if ours is None else np.where(ours, found, NONE)

    def _is_ours(self, high: Any) -> Any:
        if self._shares == 1:
            return None
        return high % np.uint64(self._shares) == np.uint64(self._share)

    def _hashes(self, keys: Any) -> tuple[Any, Any]:
        starts, data = _buffers(keys)
        low, high = np.empty((2, len(keys)), np.uint64)
        hash_all(data, starts, self._k0, self._k1, low, high)
        return low, high


def _buffers(keys: Any) -> tuple[Any, Any]:
    """Where each of a ``pa.BinaryArray`` begins and ends in its bytes, and these."""
    _, starts, data = keys.buffers()
    count = len(keys) + 1
    found = np.frombuffer(starts, np.int32)[keys.offset :][:count].astype(np.int64)
    text = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    assert not len(keys) or (found[0] >= 0 and found[-1] <= len(text)), "as Arrow says"
    return found, text
