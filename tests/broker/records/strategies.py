"""Records as clients may send them, as hypothesis makes them."""

from hypothesis import strategies as st

from tests.support.batches import BASE_TIMESTAMP, Record

DATA = st.one_of(st.none(), st.binary(max_size=70))
NAMES = st.text(max_size=6).map(lambda text: text.encode("utf-8"))
HEADERS = st.lists(st.tuples(NAMES, DATA), max_size=3).map(tuple)
TIMESTAMPS = st.one_of(
    st.integers(BASE_TIMESTAMP - 100_000, BASE_TIMESTAMP + 100_000),
    st.sampled_from([-1, 0, 253_402_300_799_999, -9_223_372_036_854_775]),
)
RECORDS = st.builds(Record, key=DATA, value=DATA, headers=HEADERS, timestamp=TIMESTAMPS)
"""Surrogates never encode, so every name here is what a client may send."""
