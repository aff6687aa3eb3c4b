"""What a batch must be before it is kept, and how it is placed."""

import struct
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.protocol.errors import ErrorCode, KafkaError
from broker.records.batch import (
    Buffer,
    _check_attributes,
    _check_bounds,
    _check_counts,
    _check_request,
    _check_whole,
    _sound_header,
    assign,
    check_produced,
    checksum,
    correct_max_timestamp,
    empty_batches,
    read_header,
    split,
    stamp_log_append_time,
)
from broker.records.layout import HEADER, HEADER_BYTES
from tests.support.batches import Record, make_batch, patch, read_batch

BYTES_MAX = 1 << 20
PRODUCERS = [(-1, -1, -1), (5, 2, 7), (0, 0, 0)]
FIELDS = [
    (">i", 8), (">b", 16), (">h", 21), (">i", 23), (">q", 43), (">h", 51), (">i", 53),
    (">i", 57),
]  # fmt: skip
RECORDS = [Record(b"k", b"v1"), Record(None, b"v2"), Record(b"k", None)]


def refusal(records: Buffer, bytes_max: int = BYTES_MAX, version: int = 9) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        check_produced(records, bytes_max, version)
    return caught.value.code


def test_header_names_each_field() -> None:
    batch = make_batch(RECORDS, 7, codec=3, producer=(5, 2, 2**31 - 2))
    header = read_header(batch)
    assert (header.base_offset, header.last_offset, header.size) == (7, 9, len(batch))
    assert (header.codec, header.record_count, header.magic) == (3, 3, 2)
    assert (header.producer_id, header.producer_epoch) == (5, 2)
    assert HEADER.pack(*header) == batch[:HEADER_BYTES]


def test_sequences_wrap_to_zero() -> None:
    header = read_header(make_batch(RECORDS, producer=(5, 0, 2**31 - 2)))
    assert header.last_sequence == 0


def test_a_producer_without_sequence_has_none() -> None:
    assert read_header(make_batch(RECORDS)).last_sequence == -1


@pytest.mark.parametrize("base", [1, -1, 12345, 2**62, -(2**63)])
def test_a_batch_that_claims_an_offset_is_refused_before_it_is_looked_at(
    base: int,
) -> None:
    batch = make_batch(RECORDS, base)
    assert refusal(batch) == ErrorCode.INVALID_RECORD
    batch[-1] ^= 1
    assert refusal(batch) == ErrorCode.INVALID_RECORD
    assert refusal(batch, len(batch) - 1) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("form", [bytes, bytearray, memoryview])
def test_any_buffer_will_do(form: Callable[[bytearray], Buffer]) -> None:
    check_produced(form(make_batch(RECORDS)), BYTES_MAX, 9)


def test_every_truncation_is_refused() -> None:
    batch = make_batch(RECORDS)
    for length in range(len(batch)):
        code = refusal(batch[:length])
        assert code in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD)


def test_every_flipped_bit_after_the_epoch_is_refused() -> None:
    batch = make_batch(RECORDS)
    for position in (8, *range(16, len(batch))):
        flipped = bytearray(batch)
        flipped[position] ^= 0x10
        refusal(flipped)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_garbage_is_refused_with_a_kafka_error(data: bytes) -> None:
    refusal(data)


@pytest.mark.parametrize("magic", [0, 1, 3])
def test_other_magics_are_refused(magic: int) -> None:
    batch = make_batch(RECORDS)
    batch[16] = magic
    assert refusal(batch) == ErrorCode.INVALID_RECORD


def test_two_batches_are_refused() -> None:
    assert refusal(make_batch(RECORDS) * 2) == ErrorCode.INVALID_RECORD


def test_a_batch_above_the_limit_is_refused_and_one_at_it_is_not() -> None:
    batch = make_batch(RECORDS)
    check_produced(batch, len(batch), 9)
    assert refusal(batch, len(batch) - 1) == ErrorCode.MESSAGE_TOO_LARGE


CASES = [
    (">h", 21, (5,), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    (">h", 21, (0x08,), ErrorCode.INVALID_TIMESTAMP),
    (">h", 21, (0x10,), ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    (">h", 21, (0x20,), ErrorCode.INVALID_RECORD),
    (">i", 23, (3,), ErrorCode.INVALID_RECORD),
    (">i", 57, (0,), ErrorCode.INVALID_RECORD),
    (">i", 57, (-1,), ErrorCode.INVALID_RECORD),
    (">i", 57, (2**31 - 1,), ErrorCode.INVALID_RECORD),
    (">qhi", 43, (7, 0, -1), ErrorCode.INVALID_RECORD),
    (">qhi", 43, (7, -1, 0), ErrorCode.INVALID_RECORD),
    (">qhi", 43, (-2, 0, 0), ErrorCode.INVALID_RECORD),
]


@pytest.mark.parametrize(("form", "position", "values", "code"), CASES)
def test_a_header_that_lies_is_refused(
    form: str, position: int, values: tuple[int, ...], code: ErrorCode
) -> None:
    assert refusal(patch(make_batch(RECORDS), form, position, *values)) == code


TRANSACTIONAL = 0x10


def test_a_transactional_batch_is_taken_only_from_who_knows_its_transaction() -> None:
    batch = patch(make_batch(RECORDS, producer=(7, 0, 0)), ">h", 21, TRANSACTIONAL)
    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert refusal(batch) == code
    assert check_produced(batch, BYTES_MAX, 9, in_transaction=True).is_transactional


@pytest.mark.parametrize(
    ("attributes", "producer", "code"),
    [
        (0x10, (-1, -1, -1), ErrorCode.INVALID_RECORD),
        (0x10, (7, -1, 0), ErrorCode.INVALID_RECORD),
        (0x30, (7, 0, 0), ErrorCode.INVALID_RECORD),
        (0x18, (7, 0, 0), ErrorCode.INVALID_TIMESTAMP),
        (0x15, (7, 0, 0), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    ],
)
def test_what_is_wrong_with_a_batch_is_so_inside_a_transaction_too(
    attributes: int, producer: tuple[int, int, int], code: ErrorCode
) -> None:
    batch = patch(make_batch(RECORDS, producer=producer), ">h", 21, attributes)
    with pytest.raises(KafkaError) as caught:
        check_produced(batch, BYTES_MAX, 9, in_transaction=True)
    assert caught.value.code == code


def test_zstd_needs_produce_7() -> None:
    batch = make_batch(RECORDS, codec=4)
    check_produced(batch, BYTES_MAX, 7)
    assert refusal(batch, version=6) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_the_short_check_passes_only_what_the_long_one_passes(
    data: st.DataObject,
) -> None:
    batch = make_batch(RECORDS, producer=data.draw(st.sampled_from(PRODUCERS)))
    form, position = data.draw(st.sampled_from(FIELDS))
    limit = 2 ** (8 * struct.calcsize(form) - 1)
    value = data.draw(st.integers(-3, 5) | st.integers(-limit, limit - 1))
    changed = patch(batch, form, position, value)
    version = data.draw(st.integers(3, 13))
    for one in (batch, changed, changed[:-1], changed + b"x"):
        short = _sound_header(one, BYTES_MAX, version)
        try:
            long = _check_bounds(one)
            _check_request(long, version, in_transaction=False)
            _check_whole(long, one, BYTES_MAX)
            _check_attributes(long)
            _check_counts(long)
        except (KafkaError, AssertionError):
            assert short is None
        else:
            assert short == long or (short is None and one is not batch)


def test_placing_leaves_the_checksum_right() -> None:
    batch = make_batch(RECORDS)
    assign(memoryview(batch), 10_000_000_000, 4)
    header = read_header(batch)
    assert checksum(batch) == header.crc
    assert (header.base_offset, header.partition_leader_epoch) == (10_000_000_000, 4)


def test_stamping_gives_every_record_the_brokers_time() -> None:
    batch = make_batch(RECORDS)
    stamp_log_append_time(batch, 1_800_000_000_000)
    assert checksum(batch) == read_header(batch).crc
    assert {(r.timestamp, r.timestamp_type) for r in read_batch(batch)} == {
        (1_800_000_000_000, 1)
    }


def test_a_wrong_newest_timestamp_is_put_right() -> None:
    batch = make_batch([Record(timestamp=5), Record(timestamp=9)], max_timestamp=-1)
    correct_max_timestamp(batch, 9)
    header = read_header(batch)
    assert (header.max_timestamp, header.crc) == (9, checksum(batch))
    assert [record.timestamp for record in read_batch(batch)] == [5, 9]


def test_empty_batches_span_a_gap_of_any_size() -> None:
    assert empty_batches(5, 5) == []
    for first, end in ((0, 1), (17, 40), (3, 3 + 2**32)):
        position = first
        for batch in empty_batches(first, end):
            header = read_header(batch)
            assert checksum(batch) == header.crc
            assert (header.size, header.record_count) == (len(batch), 0)
            assert header.base_offset == position
            position = header.last_offset + 1
        assert position == end


def test_split_walks_whole_batches_only() -> None:
    one, two = make_batch(RECORDS, 0), make_batch(RECORDS, 3)
    assert [bytes(view) for _, view in split(one + two)] == [bytes(one), bytes(two)]
    with pytest.raises(KafkaError):
        list(split(one + two[:-1]))
    short = bytearray(one)
    struct.pack_into(">i", short, 8, 1)
    with pytest.raises(KafkaError):
        list(split(short))
