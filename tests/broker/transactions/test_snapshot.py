"""The row of a transactional id: what is written is what is read."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.transactions.metadata import TransactionMetadata
from broker.transactions.snapshot import decode, encode
from broker.transactions.states import TransactionState

INT16 = st.integers(-1, 2**15 - 1)
INT32 = st.integers(0, 2**31 - 1)
INT64 = st.integers(-1, 2**63 - 1)
METADATA = st.builds(
    TransactionMetadata,
    INT64,
    INT16,
    st.sampled_from(TransactionState),
    INT32,
    INT64,
    INT64,
    INT16,
    st.frozensets(st.tuples(INT32, INT32)),
    st.frozensets(st.text()),
    INT64,
    INT64,
    st.sampled_from([1, 2]),
    st.lists(st.tuples(st.tuples(INT32, INT32), INT64)).map(tuple),
)


@given(METADATA)
def test_what_is_read_is_what_was_written(metadata: TransactionMetadata) -> None:
    text = encode(metadata)
    assert text.isascii()
    assert decode(text) == metadata


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        "{}",
        json.dumps(json.loads(encode(TransactionMetadata())) | {"version": 2}),
        json.dumps(json.loads(encode(TransactionMetadata())) | {"more": 1}),
        json.dumps(json.loads(encode(TransactionMetadata())) | {"state": "Else"}),
        json.dumps(json.loads(encode(TransactionMetadata())) | {"partitions": [1]}),
    ],
)
def test_a_text_that_is_not_ours_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        decode(text)
