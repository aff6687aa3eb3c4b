"""The compiled writer against the naive one."""

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.records.columns import to_columns
from broker.records.rebatch import from_columns
from tests.broker.records.strategies import RECORDS
from tests.support.batches import Record, make_batch


@settings(max_examples=150, deadline=None)
@given(st.lists(RECORDS, min_size=1, max_size=20), st.integers(0, 2**62))
def test_it_writes_the_bytes_that_python_would(
    records: list[Record], base_offset: int
) -> None:
    plain = make_batch(records, base_offset)
    assert from_columns(to_columns([plain])) == [bytes(plain)]


def test_deltas_of_every_width() -> None:
    far = [Record(timestamp=t) for t in (0, 63, -65, 2**20, -(2**40), 2**52)]
    plain = make_batch(far, 0, deltas=[0, 1, 200, 20_000, 2_000_000, 2**31 - 1])
    assert from_columns(to_columns([plain])) == [bytes(plain)]
