"""Nonsense under a right checksum is refused before it is kept."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.protocol.errors import ErrorCode, KafkaError
from broker.records.batch import read_header
from broker.records.inspect import Inspection, inspect_batch
from broker.records.limits import UNCOMPRESSED_BYTES_MAX
from tests.broker.records.strategies import RECORDS
from tests.support.batches import (
    BASE_TIMESTAMP,
    Record,
    encode_record,
    make_batch,
    nullable,
    patch,
    varint,
    wrap,
)

CODECS = [0, 1, 2, 3, 4]
REFUSALS = (ErrorCode.INVALID_RECORD, ErrorCode.INVALID_TIMESTAMP)


def inspect(batch: bytearray) -> Inspection:
    return inspect_batch(batch, read_header(batch))


def refusal(batch: bytearray) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        inspect(batch)
    return caught.value.code


def outcome(batch: bytearray) -> ErrorCode | None:
    try:
        inspect(batch)
    except KafkaError as error:
        return error.code
    return None


def record(body: bytes) -> bytes:
    return varint(len(body)) + body


def one(fields: bytes) -> bytearray:
    """A batch of one record: after attributes and the two deltas come ``fields``."""
    return wrap(record(b"\0\0\0" + fields), 1)


@pytest.mark.parametrize("codec", CODECS)
@settings(max_examples=40, deadline=None)
@given(records=st.lists(RECORDS, min_size=1, max_size=20))
def test_sound_batches_pass(codec: int, records: list[Record]) -> None:
    plain = make_batch(records)
    found = inspect(make_batch(records, codec=codec))
    assert found.uncompressed_bytes == len(plain) - 61
    assert found.null_keys == sum(r.key is None for r in records)


@pytest.mark.parametrize("codec", CODECS)
def test_every_cut_of_the_records_is_refused(codec: int) -> None:
    body = b"".join(
        encode_record(Record(b"key", b"value", ((b"h", b"x"),)), 0, i) for i in range(2)
    )
    inspect(wrap(body, 2, 1, attributes=codec))
    for length in range(len(body)):
        assert refusal(wrap(body[:length], 2, 1, attributes=codec)) in (
            ErrorCode.INVALID_RECORD,
            ErrorCode.CORRUPT_MESSAGE,
        )


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=120), st.integers(1, 2**31 - 1))
def test_garbage_is_refused_or_sound(body: bytes, count: int) -> None:
    assert outcome(wrap(body, count)) in (None, *REFUSALS)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_any_changed_byte_is_refused_or_reads_within_bounds(
    data: st.DataObject,
) -> None:
    batch = make_batch([Record(b"key", b"value", ((b"h", b"x"),))] * 3)
    position = data.draw(st.integers(61, len(batch) - 1))
    batch[position] = data.draw(st.integers(0, 255))
    assert outcome(batch) in (None, *REFUSALS)


LYING_RECORDS = {
    "key longer than the record": one(varint(100) + b"k" + nullable(b"") + b"\0"),
    "key length below -1": one(varint(-2) + nullable(b"") + b"\0"),
    "value longer than the record": one(nullable(b"") + varint(2**31 - 1) + b"\0"),
    "value length below -1": one(nullable(b"") + varint(-(2**31)) + b"\0"),
    "more headers than bytes": one(nullable(b"") * 2 + varint(2**31 - 1)),
    "fewer than no headers": one(nullable(b"") * 2 + varint(-1)),
    "a null header key": one(nullable(b"") * 2 + varint(1) + varint(-1) + b"\0"),
    "a header key not in UTF-8": one(
        nullable(b"") * 2 + varint(1) + nullable(b"\xff") + nullable(None)
    ),
    "bytes after the headers": one(nullable(b"") * 2 + varint(0) + b"x"),
    "a varint without end": one(b"\x80" * 20),
    "a varint of 33 bits": one(b"\xff\xff\xff\xff\x1f" + b"\0" * 20),
    "an offset delta from elsewhere": wrap(record(b"\0\0\2" + b"\0\0\0"), 1),
    "a negative offset delta": wrap(record(b"\0\0\1" + b"\0\0\0"), 1),
    "a record of negative length": wrap(varint(-1) + b"\0" * 9, 1),
    "bytes after the last record": wrap(record(b"\0\0\0" + b"\0\0\0") + b"\0", 1),
    "fewer records than the count": wrap(record(b"\0\0\0" + b"\0\0\0"), 2, 1),
}


@pytest.mark.parametrize("lie", LYING_RECORDS)
def test_a_record_that_lies_is_refused(lie: str) -> None:
    assert refusal(LYING_RECORDS[lie]) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(
    "name",
    [
        b"\xc0\x80",
        b"\xed\xa0\x80",
        b"\xf4\x90\x80\x80",
        b"\xe0\x80\x80",
        b"\xc3",
        b"a\x80",
        b"\xf0\x80\x80\x80",
    ],
)
def test_header_keys_are_as_strict_as_arrow(name: bytes) -> None:
    with pytest.raises(UnicodeDecodeError):
        name.decode("utf-8")
    assert refusal(make_batch([Record(headers=((name, b""),))])) == (
        ErrorCode.INVALID_RECORD
    )


MICROS_MAX = (2**63 - 1) // 1000


@pytest.mark.parametrize(
    ("base", "delta"),
    [
        (MICROS_MAX + 1, 0),
        (-MICROS_MAX - 1, 0),
        (BASE_TIMESTAMP, MICROS_MAX),
        (2**63 - 1, 2**63 - 1),
        (-(2**63), -(2**63)),
        (0, 2**63 - 1),
    ],
)
def test_timestamps_that_no_table_holds_are_refused(base: int, delta: int) -> None:
    body = record(b"\0" + varint(delta) + b"\0" + b"\0\0\0")
    assert refusal(wrap(body, 1, base_timestamp=base)) == ErrorCode.INVALID_TIMESTAMP


def test_the_last_timestamps_that_a_table_holds_pass() -> None:
    for base in (MICROS_MAX, -MICROS_MAX):
        inspect(wrap(record(b"\0\0\0" + b"\0\0\0"), 1, base_timestamp=base))


def test_with_log_append_time_the_batchs_own_time_counts() -> None:
    batch = patch(make_batch([Record()]), ">h", 21, 0x08)
    inspect(batch)
    assert refusal(patch(batch, ">q", 35, MICROS_MAX + 1)) == (
        ErrorCode.INVALID_TIMESTAMP
    )


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_a_bomb_is_refused(codec: int) -> None:
    bomb = wrap(bytes(UNCOMPRESSED_BYTES_MAX + 1), 1, attributes=codec)
    assert refusal(bomb) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_damaged_compressed_records_are_refused(codec: int) -> None:
    batch = make_batch([Record(b"k", b"v" * 500)] * 10, codec=codec)
    del batch[-20:]
    batch = patch(batch, ">i", 8, len(batch) - 12)
    assert refusal(batch) in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD)
