"""Numbers out of a Roaring bitmap of 64 bits, as deletion vectors have them.

The idea: 65,536 numbers make a container, which is a list of them, 8,192 bytes of bits,
or runs, whichever is shortest; a header says how many numbers each has, so that a few
damaged bytes never make billions of numbers. Pure.

Source: the Roaring bitmap format specification; the Delta transaction log protocol,
"Deletion Vector Format".
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]

MAGIC: Final = 1681511377
_WITHOUT_RUNS, _WITH_RUNS = 12346, 12347
_OFFSETS_FROM: Final = 4
"""With runs, so many containers have a list of where each begins; without, any have."""
_ARRAY_MAX: Final = 4096
_CONTAINERS_MAX: Final = 1 << 16
_HIGH_MAX: Final = (1 << 31) - 1
"""Rows of a file are counted by a signed number of 64 bits."""


class _Bytes:
    """Bytes that are read one after the other. Raises ValueError at their end."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, kind: str, count: int) -> npt.NDArray[Any]:
        size = np.dtype(kind).itemsize * count
        if self._at + size > len(self._data):
            raise ValueError("a bitmap is cut off")
        taken = self._data[self._at : self._at + size]
        self._at += size
        return np.frombuffer(taken, kind)

    def number(self, kind: str) -> int:
        return int(self.take(kind, 1)[0])


def numbers_of(data: bytes, count: int) -> Numbers:
    """The numbers of a bitmap, rising. Raises ValueError if it is none, or has not
    exactly ``count``."""
    source, parts, left = _Bytes(data), [np.empty(0, np.int64)], count
    magic = source.number("<u4")
    if magic != MAGIC:
        raise ValueError(f"a bitmap begins with {magic}, not with {MAGIC}")
    for _ in range(source.number("<u8")):
        high = source.number("<u4")
        if high > _HIGH_MAX:
            raise ValueError(f"a bitmap has numbers from {high << 32} on")
        for part in _bucket(source, left):
            left -= len(part)
            parts.append(part + (high << 32))
    found = np.concatenate(parts)
    if left or not (np.diff(found) > 0).all():
        raise ValueError(f"a bitmap has not {count} numbers in order")
    return found


def _bucket(source: _Bytes, count_max: int) -> list[Numbers]:
    """The numbers of a bitmap of 32 bits, a container each."""
    cookie = source.number("<u4")
    if cookie & 0xFFFF == _WITH_RUNS:
        containers = (cookie >> 16) + 1
        flags = source.take("u1", (containers + 7) // 8)
        are_runs = np.unpackbits(flags, bitorder="little").tolist()
        has_offsets = containers >= _OFFSETS_FROM
    elif cookie == _WITHOUT_RUNS:
        containers = min(source.number("<u4"), _CONTAINERS_MAX)
        are_runs, has_offsets = [0] * containers, True
    else:
        raise ValueError(f"a bitmap has the cookie {cookie}")
    header = source.take("<u2", 2 * containers).astype(np.int64).reshape(-1, 2)
    if int(header[:, 1].sum()) + containers > count_max:
        raise ValueError("a bitmap has more numbers than it should")
    if has_offsets:
        source.take("<u4", containers)
    return [
        _container(source, less + 1, is_run=bool(is_run)) + (key << 16)
        for (key, less), is_run in zip(header.tolist(), are_runs, strict=False)
    ]


def _container(source: _Bytes, count: int, *, is_run: bool) -> Numbers:
    if is_run:
        found = _runs(source, count)
    elif count <= _ARRAY_MAX:
        found = source.take("<u2", count).astype(np.int64)
    else:
        bits = np.unpackbits(source.take("u1", 8192), bitorder="little")
        found = np.flatnonzero(bits).astype(np.int64)
    if len(found) != count:
        raise ValueError(f"a container has {len(found)} numbers, not {count}")
    return found


def _runs(source: _Bytes, count: int) -> Numbers:
    """Numbers from runs: where each begins, and how many follow."""
    pairs = source.take("<u2", 2 * source.number("<u2")).astype(np.int64).reshape(-1, 2)
    starts, lengths = pairs[:, 0], pairs[:, 1] + 1
    if int(lengths.sum()) != count:
        raise ValueError(f"runs have {int(lengths.sum())} numbers, not {count}")
    before = np.cumsum(lengths) - lengths
    return np.repeat(starts - before, lengths) + np.arange(count)
