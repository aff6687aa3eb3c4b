"""A table of the last offsets against a dictionary, in one share and in many."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.cleaning import latest
from jobs.cleaning.kernels import NONE
from jobs.cleaning.latest import SLOT_BYTES, SLOTS_MIN, Full, Latest

KEYS = st.lists(st.binary(max_size=20), max_size=60)


def column(keys: list[bytes]) -> pa.Array:
    """Not from the start of its buffers on."""
    return pa.array([b"before", *keys, b"after"], pa.binary()).slice(1, len(keys))


def offsets(count: int) -> np.ndarray:
    return np.arange(count, dtype=np.int64)


@given(KEYS, KEYS, st.integers(1, 5))
def test_it_knows_what_a_dictionary_knows(
    keys: list[bytes], others: list[bytes], shares: int
) -> None:
    known = {key: offset for offset, key in enumerate(keys)}
    asked = [*keys, *others]
    found = np.full(len(asked), NONE)
    table, count = Latest(len(keys)), 0
    for share in range(shares):
        table.begin(share, shares)
        table.put(column(keys), offsets(len(keys)))
        found = np.maximum(found, table.find(column(asked)))
        count += table.keys
    assert found.tolist() == [known.get(key, NONE) for key in asked]
    assert count == len(known)


def test_more_keys_than_fit_are_refused_and_fit_in_shares() -> None:
    keys = column([b"%d" % n for n in range(SLOTS_MIN)])
    table = Latest(1 << 30, SLOT_BYTES)
    with pytest.raises(Full):
        table.put(keys, offsets(len(keys)))
    table.begin(1, 2)
    table.put(keys, offsets(len(keys)))
    assert 0 < table.keys < len(keys)


def test_two_tables_hash_by_keys_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = column([b"a"])
    one, other = (Latest(1)._hashes(keys) for _ in range(2))
    assert one != other
    monkeypatch.setattr(latest.os, "urandom", bytes)
    same, again = (Latest(1)._hashes(keys) for _ in range(2))
    assert same == again


def test_a_column_without_bytes_is_empty_keys() -> None:
    empty = pa.array([b"", b""], pa.binary())
    table = Latest(2)
    table.put(empty, offsets(2))
    assert (table.keys, table.find(empty).tolist()) == (1, [1, 1])
