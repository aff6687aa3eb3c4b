"""Places are all that batches are made of."""

import numpy as np

from broker.records.rebatch import from_places
from lakehouse import places
from lakehouse.places import Places
from tests.support.batches import Record, make_batch


def test_a_batch_has_what_lies_there() -> None:
    memory = np.frombuffer(b"..keythe value", np.uint8)
    at = memory.ctypes.data
    rows = np.zeros((places.ROW_FIELDS, 2), np.int64)
    rows[places.OFFSET], rows[places.TIMESTAMP] = (7, 8), (5, 6)
    rows[places.KEY_AT], rows[places.KEY_LENGTH] = (2, 0), (3, -1)
    rows[places.VALUE_AT], rows[places.VALUE_LENGTH] = (at + 5, 0), (9, -1)
    headers = np.zeros((4, 0), np.int64)
    found = from_places(Places(rows, headers, (at, 0, 0, 0), memory))
    records = [
        Record(b"key", b"the value", timestamp=5),
        Record(value=None, timestamp=6),
    ]
    assert found == [bytes(make_batch(records, 7))]
