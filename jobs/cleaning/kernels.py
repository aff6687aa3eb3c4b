"""Compiled loops of key compaction: keys to 128 bits, and where each was seen last.

The problem: of each key the highest offset is wanted, of some millions of keys, and a
dictionary of Python takes 150 bytes and a microsecond for each. The idea is that of
Kafka's ``SkimpyOffsetMap``: a table of fixed size with a hash of the key in the place
of the key, and the offset. Two keys with one hash would be one key, and the older
record lost; so the hash is SipHash-2-4 of 128 bits, whose own key nobody knows: with a
billion keys that happens once in 10^20 tables, also if somebody wants it to.

The price: 24 bytes a slot. A first compilation of some seconds, kept beside this file;
functions that call each other stay in one file, by whose time stamp the cache goes.

Sources: Aumasson and Bernstein, "SipHash: a fast short-input PRF", and the reference
implementation's 128-bit variant; Kafka's ``SkimpyOffsetMap``.
"""

from typing import Final

import numpy as np
from numba import njit, types

NONE: Final = -1
"""The offset of a slot that is empty, and of a key that is not there."""
_BYTES: Final = types.Array(types.uint8, 1, "C", readonly=True)
_I64S: Final = types.Array(types.int64, 1, "C")
_READ: Final = types.Array(types.int64, 1, "C", readonly=True)
_U64S: Final = types.Array(types.uint64, 1, "C")
_U64: Final = types.uint64


@njit(nogil=True, cache=True, forceinline=True)
def _rotated(value, bits):  # type: ignore[no-untyped-def]
    left, right = np.uint64(bits), np.uint64(64 - bits)
    return (value << left) | (value >> right)


@njit(nogil=True, cache=True, forceinline=True)
def _round(v0, v1, v2, v3):  # type: ignore[no-untyped-def]
    v0 += v1
    v1 = _rotated(v1, 13) ^ v0
    v0 = _rotated(v0, 32)
    v2 += v3
    v3 = _rotated(v3, 16) ^ v2
    v0 += v3
    v3 = _rotated(v3, 21) ^ v0
    v2 += v1
    v1 = _rotated(v1, 17) ^ v2
    v2 = _rotated(v2, 32)
    return v0, v1, v2, v3


@njit(nogil=True, cache=True, forceinline=True)
def _little_endian(data, at, count):  # type: ignore[no-untyped-def]
    word = np.uint64(0)
    for index in range(count):
        word |= np.uint64(data[at + index]) << np.uint64(8 * index)
    return word


@njit(types.void(_BYTES, _READ, _U64, _U64, _U64S, _U64S), nogil=True, cache=True)
def hash_all(data, starts, k0, k1, low, high):  # type: ignore[no-untyped-def]
    """Write the hash of ``data[starts[i]:starts[i + 1]]`` to ``low[i]``, ``high[i]``.

    Starts only grow, and none is beyond the data.
    """
    for index in range(len(starts) - 1):
        at, end = starts[index], starts[index + 1]
        length = end - at
        v0 = k0 ^ np.uint64(0x736F6D6570736575)
        v1 = k1 ^ np.uint64(0x646F72616E646F6D) ^ np.uint64(0xEE)
        v2 = k0 ^ np.uint64(0x6C7967656E657261)
        v3 = k1 ^ np.uint64(0x7465646279746573)
        while end - at >= 8:
            word = _little_endian(data, at, 8)
            v3 ^= word
            v0, v1, v2, v3 = _round(v0, v1, v2, v3)
            v0, v1, v2, v3 = _round(v0, v1, v2, v3)
            v0 ^= word
            at += 8
        word = _little_endian(data, at, end - at)
        word |= np.uint64(length & 0xFF) << np.uint64(56)
        v3 ^= word
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        v0 ^= word
        v2 ^= np.uint64(0xEE)
        for _ in range(4):
            v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        low[index] = v0 ^ v1 ^ v2 ^ v3
        v1 ^= np.uint64(0xDD)
        for _ in range(4):
            v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        high[index] = v0 ^ v1 ^ v2 ^ v3


@njit(nogil=True, cache=True, forceinline=True)
def _slot(low, high, lows, highs, offsets):  # type: ignore[no-untyped-def]
    """Where a key is, or would be: the table has an empty slot."""
    slots = np.uint64(len(offsets))
    at = np.int64(((low >> np.uint64(32)) * slots) >> np.uint64(32))
    while offsets[at] != NONE and (lows[at] != low or highs[at] != high):
        at = at + 1 if at + 1 < len(offsets) else at + 1 - len(offsets)
    return at


@njit(
    types.int64(
        _U64S, _U64S, _READ, _U64S, _U64S, _I64S, types.int64, types.int64
    ),
    nogil=True, cache=True,
)  # fmt: skip
def put_all(low, high, found, lows, highs, offsets, used, most):  # type: ignore[no-untyped-def]
    """Remember the offset ``found[i]`` of each key where it is above the one known.

    ``used``: slots that are taken; returned is how many are then, or -1 once more than
    ``most`` would be.
    """
    for index in range(len(found)):
        at = _slot(low[index], high[index], lows, highs, offsets)
        if offsets[at] == NONE:
            if used == most:
                return -1
            used += 1
            lows[at], highs[at] = low[index], high[index]
        if found[index] > offsets[at]:
            offsets[at] = found[index]
    return used


@njit(types.void(_U64S, _U64S, _U64S, _U64S, _I64S, _I64S), nogil=True, cache=True)
def find_all(low, high, lows, highs, offsets, found):  # type: ignore[no-untyped-def]
    """Write the highest offset of each key to ``found``; `NONE` where there is none."""
    for index in range(len(found)):
        found[index] = offsets[_slot(low[index], high[index], lows, highs, offsets)]
