"""Batches at and above the limits, at produce and in the compactor."""

import pytest

from broker.protocol.errors import ErrorCode, KafkaError
from broker.records.batch import read_header
from broker.records.columns import decode
from broker.records.inspect import inspect_batch
from broker.records.limits import HEADERS_MAX, RECORDS_MAX
from tests.support.batches import Record, make_batch, varint, wrap

NO_HEADER = b"\0\0"  # an empty key, an empty value


def with_headers(*counts: int) -> bytes:
    """Records with so many empty headers each."""
    records = b""
    for number, count in enumerate(counts):
        body = b"\0\0" + varint(number) + b"\1\1" + varint(count) + NO_HEADER * count
        records += varint(len(body)) + body
    return records


@pytest.mark.parametrize("codec", [0, 4])
def test_as_many_headers_as_allowed_pass_and_one_more_is_refused(codec: int) -> None:
    half = HEADERS_MAX // 2
    batch = wrap(with_headers(half, half), 2, 1, attributes=codec)
    assert inspect_batch(batch, read_header(batch)).headers == HEADERS_MAX
    bomb = wrap(with_headers(half, half + 1), 2, 1, attributes=codec)
    with pytest.raises(KafkaError) as caught:
        inspect_batch(bomb, read_header(bomb))
    assert caught.value.code == ErrorCode.INVALID_RECORD


def test_more_records_than_allowed_are_refused_before_they_are_decompressed() -> None:
    damaged = wrap(b"", RECORDS_MAX + 1, RECORDS_MAX, attributes=4)
    del damaged[61:]
    with pytest.raises(KafkaError) as caught:
        inspect_batch(damaged, read_header(damaged))
    assert caught.value.code == ErrorCode.INVALID_RECORD
    assert str(RECORDS_MAX) in caught.value.message


def test_columns_hold_no_more_headers_at_a_time_than_a_batch_may_have() -> None:
    third = HEADERS_MAX // 3 + 1
    batches = [
        make_batch([Record(b"a")], 0),
        wrap(with_headers(third, third, third, third), 4, 3, base_offset=1),
    ]
    parts = list(decode(batches))
    assert [part.num_rows for part in parts] == [3, 2]
    assert [row for part in parts for row in part.column("offset").to_pylist()] == [
        0, 1, 2, 3, 4,
    ]  # fmt: skip
