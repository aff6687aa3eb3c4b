"""What the simulated consumer makes of an answer."""

from broker.records.batch import empty_batches
from tests.simulation.clients import read_records
from tests.support.batches import Record, make_batch


def test_a_batch_without_records_carries_the_position_over_a_gap():
    (over,) = empty_batches(2094, 2095)
    assert read_records(over, 2094) == ([], 2095)
    behind = bytes(make_batch([Record(value=b"x")], base_offset=2095))
    assert read_records(over + behind, 2094) == ([(2095, b"x")], 2096)
    assert read_records(over + behind[:-1], 2094) == ([], 2095)
