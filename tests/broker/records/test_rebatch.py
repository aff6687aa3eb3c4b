"""Rows become batches: where they end, and what is refused."""

import pyarrow as pa
import pytest

from broker.records.batch import read_header
from broker.records.columns import to_columns
from broker.records.rebatch import from_columns
from lakehouse import schema
from tests.support.batches import Record, make_batch, read_batch


def test_batches_end_at_the_given_size() -> None:
    rows = to_columns([make_batch([Record(value=b"x" * 100)] * 100)])
    sizes = [len(batch) for batch in from_columns(rows, 1000)]
    assert max(sizes) <= 1000
    assert min(sizes[:-1]) > 850


def test_a_record_above_the_size_has_a_batch_for_itself() -> None:
    values = [b"a", b"x" * 5000, b"b"]
    rows = to_columns([make_batch([Record(value=value) for value in values])])
    batches = from_columns(rows, 1000)
    assert [read_header(batch).record_count for batch in batches] == [1, 1, 1]


def test_only_the_columns_that_are_needed_must_be_there() -> None:
    rows = to_columns([make_batch([Record(b"k", b"v", ((b"h", b"1"),))] * 3)])
    assert from_columns(rows.select(schema.READ)) == from_columns(rows)


def test_wide_columns_are_read_as_well() -> None:
    plain = make_batch([Record(b"k", b"v", ((b"h", None),)), Record(None, None)])
    rows = pa.Table.from_batches([to_columns([plain])])
    for name in ("key", "value"):
        at = rows.schema.get_field_index(name)
        rows = rows.set_column(at, name, rows[name].cast(pa.large_binary()))
    assert from_columns(rows) == [bytes(plain)]


def test_a_row_without_offset_or_timestamp_is_refused() -> None:
    rows = to_columns([make_batch([Record()] * 2)])
    for name in ("offset", "timestamp"):
        at = rows.schema.get_field_index(name)
        nulls = pa.nulls(2, rows.schema.field(name).type)
        with pytest.raises(ValueError, match="no offset"):
            from_columns(rows.set_column(at, name, nulls))


def test_headers_of_a_slice_are_its_own() -> None:
    records = [Record(headers=((b"%d" % i, b"x" * i),) * i) for i in range(6)]
    plain = make_batch(records)
    [cut] = from_columns(to_columns([plain]).slice(2, 3))
    assert read_batch(cut) == read_batch(plain)[2:5]
