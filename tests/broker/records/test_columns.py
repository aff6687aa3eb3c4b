"""From batches to columns and back: nothing that a consumer sees is lost."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.protocol.errors import KafkaError
from broker.records.batch import checksum, empty_batches, read_header
from broker.records.columns import decode, to_columns
from broker.records.layout import HEADER_BYTES
from broker.records.rebatch import from_columns
from broker.records.runs import Run
from lakehouse import schema
from tests.broker.records.strategies import RECORDS
from tests.support.batches import (
    BASE_TIMESTAMP,
    Record,
    make_batch,
    patch,
    read_batch,
    wrap,
)

LISTS = st.lists(
    st.tuples(
        st.lists(RECORDS, min_size=1, max_size=8),
        st.integers(0, 4),
        st.booleans(),
        st.integers(0, 3),
    ),
    max_size=6,
)


def batches_of(drawn: Any) -> list[bytearray]:
    """Batches with codecs, timestamp types and gaps as drawn."""
    batches, offset = [], 0
    for records, codec, stamped, gap in drawn:
        batch = make_batch(records, offset + gap, codec=codec, attributes=stamped << 3)
        batches.append(batch)
        offset = read_header(batch).last_offset + 1
    return batches


def seen(batches: list[bytearray] | list[bytes]) -> list[Record]:
    return [record for batch in batches for record in read_batch(batch)]


@settings(max_examples=150, deadline=None)
@given(LISTS)
def test_rows_are_what_the_batches_say(drawn: Any) -> None:
    batches = batches_of(drawn)
    rows = to_columns(batches, topic="orders", partition=3)
    rows.validate(full=True)
    assert rows.schema.equals(schema.WRITE)
    for row, record in zip(raw_rows(rows), seen(batches), strict=True):
        headers = [{"key": k.decode(), "value": v} for k, v in record.headers]
        assert row == {
            "partition": 3, "topic": "orders", "offset": record.offset,
            "timestamp": record.timestamp * 1000,
            "timestampType": record.timestamp_type, "key": record.key,
            "value": record.value, "headers": headers or None,
        }  # fmt: skip


def raw_rows(rows: pa.RecordBatch) -> list[dict[str, Any]]:
    """Rows with the timestamp as microseconds: Python's own end at the year 9999."""
    at = rows.schema.get_field_index("timestamp")
    return rows.set_column(at, "timestamp", rows["timestamp"].cast("int64")).to_pylist()


@settings(max_examples=150, deadline=None)
@given(LISTS, st.sampled_from([100, 300, 1 << 18]))
def test_a_round_trip_changes_nothing(drawn: Any, batch_bytes: int) -> None:
    batches = batches_of(drawn)
    rebuilt = from_columns(to_columns(batches), batch_bytes)
    assert seen(rebuilt) == seen(batches)
    for batch in rebuilt:
        header = read_header(batch)
        assert checksum(batch) == header.crc
        assert header.size == len(batch)
        assert header.size <= batch_bytes + HEADER_BYTES or header.record_count == 1
        assert header.last_offset == read_batch(batch)[-1].offset
        assert header.max_timestamp == max(r.timestamp for r in read_batch(batch))
        assert header.producer_id == -1


@settings(max_examples=50, deadline=None)
@given(LISTS, st.integers(0, 40), st.integers(0, 40))
def test_only_the_asked_offsets_are_taken(drawn: Any, start: int, end: int) -> None:
    batches = batches_of(drawn)
    rows = to_columns(batches, start, end)
    assert rows["offset"].to_pylist() == [
        record.offset for record in seen(batches) if start <= record.offset < end
    ]


@settings(max_examples=50, deadline=None)
@given(LISTS, st.integers(0, 20), st.integers(0, 20))
def test_slices_and_tables_are_read_where_they_lie(
    drawn: Any, start: int, length: int
) -> None:
    batches = batches_of(drawn)
    rows = to_columns(batches)
    expected = seen(batches)[start:][:length]
    cut = rows.slice(min(start, rows.num_rows), length)
    assert seen(from_columns(cut)) == expected
    halves = pa.Table.from_batches([rows, rows]).slice(start, length)
    if start + length <= rows.num_rows:
        assert seen(from_columns(halves)) == expected


def test_groups_are_bounded_whatever_goes_in() -> None:
    batch = make_batch([Record(value=b"x" * 50)] * 500)
    sizes = [rows.num_rows for rows in decode([batch] * 100, rows_max=1000)]
    assert sum(sizes) == 50_000
    assert max(sizes) <= 2000
    giant = make_batch([Record()] * 50_000, codec=4)
    assert max(rows.num_rows for rows in decode([giant], rows_max=1000)) <= 2000
    wide = [make_batch([Record(value=b"x" * 10_000)])] * 100
    assert max(rows.num_rows for rows in decode(wide, bytes_max=100_000)) <= 11


def test_batches_are_taken_as_they_are_needed() -> None:
    taken = 0

    def source() -> Any:
        nonlocal taken
        for _ in range(100):
            taken += 1
            yield make_batch([Record()] * 100)

    next(decode(source(), rows_max=500))
    assert taken == 5


def test_rows_with_log_append_time_share_no_batch_with_other_times() -> None:
    batches = [
        make_batch([Record(), Record()], 0),
        make_batch([Record(timestamp=BASE_TIMESTAMP + 1)], 2, attributes=8),
        make_batch([Record(timestamp=BASE_TIMESTAMP + 2)], 3, attributes=8),
        make_batch([Record()], 4),
    ]
    rebuilt = from_columns(to_columns(batches))
    assert [read_header(batch).base_offset for batch in rebuilt] == [0, 2, 3, 4]


def test_a_gap_too_wide_for_a_batch_begins_another() -> None:
    far = 2**31
    batches = [make_batch([Record()], 0), make_batch([Record()], far)]
    assert seen(from_columns(to_columns(batches))) == seen(batches)


def test_no_rows_are_no_batches() -> None:
    assert to_columns([]).num_rows == 0
    assert to_columns(empty_batches(0, 10)).num_rows == 0
    assert from_columns(to_columns([])) == []


def test_unsorted_or_repeated_offsets_are_refused() -> None:
    rows = to_columns([make_batch([Record()] * 3)])
    for order in ([1, 0, 2], [0, 1, 1]):
        with pytest.raises(ValueError, match="sorted"):
            from_columns(rows.take(pa.array(order)))


def test_damage_is_told_not_served() -> None:
    batch = make_batch([Record(b"k", b"v")] * 3)
    batch[-2] ^= 1
    with pytest.raises(KafkaError, match="checksum"):
        to_columns([batch])
    with pytest.raises(KafkaError, match="record 0"):
        to_columns([wrap(b"\x7f" * 40, 1)])
    with pytest.raises(KafkaError, match="length"):
        to_columns([patch(make_batch([Record()]), ">i", 57, 0)])
    with pytest.raises(KafkaError):
        to_columns([make_batch([Record()])[:50]])


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=150), st.integers(-5, 2**31 - 1))
def test_garbage_under_a_right_checksum_raises_nothing_else(
    body: bytes, count: int
) -> None:
    try:
        to_columns([wrap(body, count)])
    except KafkaError:
        return


@settings(max_examples=150, deadline=None)
@given(LISTS, st.lists(st.integers(0, 9)), st.integers(1, 12), st.integers(1, 300))
def test_a_run_gives_what_its_batches_give(
    drawn: Any, gaps: list[int], rows_max: int, bytes_max: int
) -> None:
    batches = batches_of(drawn)
    whole, at = bytearray(), []
    for number, batch in enumerate(batches):
        whole += bytes(gaps[number] if number < len(gaps) else 0)
        at.append(len(whole))
        whole += batch
    headers = [read_header(batch) for batch in batches]
    columns = (
        at, [len(batch) for batch in batches], [one.record_count for one in headers],
        [one.attributes for one in headers],
    )  # fmt: skip
    run = Run(bytes(whole), *(np.array(column, np.int64) for column in columns))
    bounds = {"rows_max": rows_max, "bytes_max": bytes_max}
    first = len(batches) // 2
    for given_ in ([run], [run.cut(slice(first)), run.cut(slice(first, None))]):
        assert list(decode(given_, **bounds)) == list(decode(batches, **bounds))
