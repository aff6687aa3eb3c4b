"""The hash is the published one, and the table finds what was put into it."""

import numpy as np
import pytest

from jobs.cleaning.kernels import NONE, find_all, hash_all, put_all

K0, K1 = np.uint64(0x0706050403020100), np.uint64(0x0F0E0D0C0B0A0908)


def hashed(*keys: bytes) -> tuple[np.ndarray, np.ndarray]:
    starts = np.cumsum([0, *map(len, keys)]).astype(np.int64)
    low, high = np.empty((2, len(keys)), np.uint64)
    hash_all(np.frombuffer(b"".join(keys) or b"", np.uint8), starts, K0, K1, low, high)
    return low, high


@pytest.mark.parametrize(
    ("length", "digest"),
    [
        (0, "a3817f04ba25a8e66df67214c7550293"),
        (1, "da87c1d86b99af44347659119b22fc45"),
        (2, "8177228da4a45dc7fca38bdef60affe4"),
        (7, "a1f1ebbed8dbc153c0b84aa61ff08239"),
        (8, "3b62a9ba6258f5610f83e264f31497b4"),
        (15, "5493e99933b0a8117e08ec0f97cfc3d9"),
    ],
)
def test_it_is_siphash_of_128_bits(length: int, digest: str) -> None:
    """Vectors of the reference implementation, as OpenSSL has them."""
    low, high = hashed(b"before", bytes(range(length)), b"after")
    assert (low[1].tobytes() + high[1].tobytes()).hex() == digest


def table(slots: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    zeros = np.zeros(slots, np.uint64)
    return zeros, zeros.copy(), np.full(slots, NONE, np.int64)


def test_keys_whose_slots_are_the_same_are_told_apart() -> None:
    lows, highs, offsets = table(4)
    low = np.array([7, 7, 8, 7], np.uint64)
    high = np.array([1, 2, 1, 1], np.uint64)
    found = np.array([10, 11, 12, 13], np.int64)
    assert put_all(low, high, found, lows, highs, offsets, 0, 3) == 3
    again = np.empty(4, np.int64)
    find_all(low, high, lows, highs, offsets, again)
    assert again.tolist() == [13, 11, 12, 13]


def test_the_last_slot_is_followed_by_the_first() -> None:
    lows, highs, offsets = table(3)
    low = np.full(2, np.uint64(2**64 - 1))
    high = np.array([1, 2], np.uint64)
    put_all(low, high, np.array([5, 6], np.int64), lows, highs, offsets, 0, 2)
    assert offsets.tolist() == [6, NONE, 5]


def test_an_older_offset_changes_nothing_and_a_full_table_takes_no_key() -> None:
    lows, highs, offsets = table(4)
    one, key = np.ones(1, np.uint64), np.zeros(1, np.uint64)
    for offset in (9, 4):
        found = np.array([offset], np.int64)
        assert put_all(key, one, found, lows, highs, offsets, int(offset == 4), 1) == 1
    assert max(offsets) == 9
    other = np.array([5], np.uint64)
    assert put_all(other, one, found, lows, highs, offsets, 1, 1) == -1
