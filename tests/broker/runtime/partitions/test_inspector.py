"""The rules of a topic, held against what is really in its batches."""

import pytest

from broker.protocol.errors import ErrorCode, KafkaError
from broker.records.batch import checksum, read_header
from broker.records.limits import (
    RECORD_ERROR_BYTES,
    RECORD_ERRORS_MAX,
    RECORD_ERRORS_MIN,
)
from broker.records.markers import Marker, marker_batch
from broker.runtime.partitions.inspector import Inspector, Rules
from broker.storage.entry import Append
from tests.support.batches import Record, make_batch, read_batch

NOW_MS = 1_700_000_000_000
LAX = Rules(needs_keys=False, before_max_ms=2**63 - 1, after_max_ms=2**63 - 1)


def append_of(batch: bytearray) -> Append:
    header = read_header(batch)
    return Append(
        1, 0, batch, header, 0, header.last_offset_delta, header.max_timestamp, print
    )


def looked_at(batch: bytearray, rules: Rules | None = LAX) -> Append:
    inspector = Inspector(lambda: NOW_MS)
    if rules is not None:
        inspector.rules[1] = rules
    append = append_of(batch)
    inspector(append)
    return append


def refusal(batch: bytearray, rules: Rules) -> KafkaError:
    with pytest.raises(KafkaError) as caught:
        looked_at(batch, rules)
    return caught.value


def times(*offsets_ms: int) -> list[Record]:
    return [Record(timestamp=NOW_MS + offset) for offset in offsets_ms]


@pytest.mark.parametrize("codec", [0, 3, 4])
def test_each_missing_key_is_named_where_keys_are_needed(codec: int) -> None:
    records = [Record(b"k"), Record(b""), Record(None), Record(None)]
    batch = make_batch(records, codec=codec)
    error = refusal(batch, LAX._replace(needs_keys=True))
    assert error.code == ErrorCode.INVALID_RECORD
    assert [index for index, _ in error.records] == [2, 3]
    assert "2 record errors" in error.message
    looked_at(batch, LAX)


def test_each_record_is_named_once_for_its_first_fault_as_kafka_does() -> None:
    rules = Rules(needs_keys=True, before_max_ms=3_000, after_max_ms=2_000)
    batch = make_batch(
        [
            Record(None, timestamp=NOW_MS + 9_999),
            Record(b"k", timestamp=NOW_MS + 9_999),
            Record(b"k", timestamp=NOW_MS),
            Record(b"k", timestamp=NOW_MS - 9_999),
            Record(b"k", timestamp=-1),
        ]
    )
    error = refusal(batch, rules)
    assert error.code == ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in error.records] == [0, 1, 3]
    assert "without key" in error.records[0][1]
    assert str(NOW_MS - 9_999) in error.records[2][1]


def test_so_many_records_at_fault_are_counted_and_the_first_named() -> None:
    record = Record(None, b"x" * RECORD_ERROR_BYTES)
    batch = make_batch([record] * (RECORD_ERRORS_MAX + 7))
    error = refusal(batch, LAX._replace(needs_keys=True))
    assert len(error.records) == RECORD_ERRORS_MAX
    assert f"{RECORD_ERRORS_MAX + 7} record errors" in error.message


def test_a_small_batch_of_many_records_at_fault_names_few() -> None:
    late = Record(b"k", timestamp=NOW_MS + 10**9)
    batch = make_batch([*times(*[0] * 900), late], codec=4)
    error = refusal(batch, LAX._replace(needs_keys=True, after_max_ms=1_000))
    assert error.code == ErrorCode.INVALID_TIMESTAMP  # of the last one
    few = RECORD_ERRORS_MIN + len(batch) // RECORD_ERROR_BYTES
    assert [index for index, _ in error.records] == list(range(few))


@pytest.mark.parametrize(("offset_ms", "index"), [(2_001, 1), (-3_001, 1)])
def test_times_are_held_against_each_record(offset_ms: int, index: int) -> None:
    rules = LAX._replace(before_max_ms=3_000, after_max_ms=2_000)
    looked_at(make_batch(times(0, -3_000, 2_000)), rules)
    for told in (None, NOW_MS):  # whatever the header says
        batch = make_batch(times(0, offset_ms, 1), max_timestamp=told)
        error = refusal(batch, rules)
        assert error.code == ErrorCode.INVALID_TIMESTAMP
        assert [at for at, _ in error.records] == [index]


def test_no_time_is_not_out_of_time() -> None:
    rules = LAX._replace(before_max_ms=0, after_max_ms=0)
    looked_at(make_batch([Record(timestamp=-1)]), rules)


@pytest.mark.parametrize("told", [-1, 0, NOW_MS + 99, 2**63 - 1])
@pytest.mark.parametrize("codec", [0, 3])
def test_the_newest_time_is_put_right(told: int, codec: int) -> None:
    records = times(5, 9, 7)
    batch = make_batch(records, codec=codec, max_timestamp=told)
    append = looked_at(batch)
    assert append.max_timestamp == append.header.max_timestamp == NOW_MS + 9
    assert read_header(batch) == append.header
    assert append.header.crc == checksum(batch)
    assert [one.timestamp for one in read_batch(batch)] == [
        one.timestamp for one in records
    ]


def test_what_the_broker_stamped_stays() -> None:
    batch = make_batch(times(0, 9), attributes=0x08, max_timestamp=NOW_MS + 1)
    rules = LAX._replace(before_max_ms=0, after_max_ms=0)
    assert looked_at(batch, rules).max_timestamp == NOW_MS + 1


def test_a_topic_that_was_deleted_meanwhile_has_no_rules() -> None:
    assert looked_at(make_batch([Record(None)]), None).error is None


def test_a_topics_rules_are_for_its_clients_and_not_for_markers() -> None:
    rules = Rules(needs_keys=True, before_max_ms=0, after_max_ms=0)
    batch = marker_batch(1, 0, Marker(True), NOW_MS - 1)
    assert looked_at(batch, rules).max_timestamp == NOW_MS - 1
