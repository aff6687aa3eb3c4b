"""Row groups without Arrow: the rows that it finds, or none at all."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakehouse.files.pages import Layout, layout_of, leaves_of, read_places
from lakehouse.files.parquet_footer import read_groups
from lakehouse.schema import HEADERS, WRITE
from tests.support.placed import (
    Row,
    flat,
    placed,
    rows_of,
    table_of,
    taken,
    write_like_ours,
)

EVERY = 13
"""Of so many bits of a file one is flipped."""
FLIPS = """
import sys
from pathlib import Path
from lakehouse.errors import LakehouseError
from tests.support.placed import placed

path, every = Path(sys.argv[1]), int(sys.argv[2])
whole = path.read_bytes()
before, other, left = placed(path), [], 0
assert before is not None
for bit in range(0, 8 * len(whole), every):
    at = bit // 8
    flipped = whole[at] ^ (1 << bit % 8)
    path.write_bytes(whole[:at] + bytes([flipped]) + whole[at + 1 :])
    try:
        found = placed(path)
    except (LakehouseError, OSError):
        found = None
    left += found is None
    if found not in (None, before):
        other.append(bit)
print(other, left > len(whole) // every)
"""
BYTES = st.one_of(st.none(), st.binary(max_size=40), st.just(b"again"))


@st.composite
def tables(draw: st.DrawFn) -> list[Row]:
    steps = draw(st.lists(st.sampled_from([1, 1, 1, 2, 70_000]), min_size=1))
    first = draw(st.integers(0, 2**60))
    offsets = [first + sum(steps[:n]) for n in range(len(steps))]
    span = draw(st.sampled_from([3, 2**20, 2**40]))
    times = st.integers(-span, span)
    kinds = draw(st.sampled_from([st.just(0), st.just(1), st.integers(0, 1)]))
    keys = draw(st.sampled_from([st.none(), BYTES, st.just(b"the same")]))
    return [
        (offset, draw(times), draw(kinds), draw(keys), draw(BYTES))
        for offset in offsets
    ]


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    found=tables(),
    compression=st.sampled_from(["zstd", "none"]),
    with_values=st.booleans(),
    dictionary_bytes=st.sampled_from([1 << 20, 30]),
    group_rows=st.integers(1, 40),
)
def test_its_rows_are_those_that_were_written(
    tmp_path: Path,
    found: list[Row],
    compression: str,
    with_values: bool,
    dictionary_bytes: int,
    group_rows: int,
) -> None:
    path = tmp_path / "f.parquet"
    columns = ["partition", "timestampType", "topic", "key"]
    write_like_ours(
        path, table_of(found, microseconds=999), compression=compression,
        use_dictionary=[*columns, "value"] if with_values else columns,
        dictionary_pagesize_limit=dictionary_bytes, row_group_size=group_rows,
    )  # fmt: skip
    groups = placed(path)
    assert groups is not None or dictionary_bytes == 30
    assert groups is None or flat(groups) == found


@pytest.mark.parametrize("compression", ["zstd", "none"])
@pytest.mark.parametrize("size", [0, 10, 1_000, 70_000, 3 << 20])
def test_values_of_many_pages_and_of_more_than_a_page(
    tmp_path: Path, compression: str, size: int
) -> None:
    path = tmp_path / "f.parquet"
    count = max(3, min(20_000, (6 << 20) // max(1, size)))
    keys = [os.urandom(120) for _ in range(count)]
    some = [os.urandom(size // 2) + b"x" * (size // 2) for _ in range(5)]
    found: list[Row] = [(n, n // 3, 0, keys[n], some[n % 5]) for n in range(count)]
    write_like_ours(
        path, table_of(found), compression=compression, row_group_size=count
    )
    groups = placed(path)
    assert groups is not None
    assert flat(groups) == found


def _headers(table: pa.Table) -> pa.Table:
    pairs = [None, [{"key": "a", "value": None}], *[None] * (len(table) - 2)]
    return table.set_column(7, WRITE.field("headers"), pa.array(pairs, HEADERS))


def _empty_headers(table: pa.Table) -> pa.Table:
    pairs: list[Any] = [[], *[None] * (len(table) - 1)]
    return table.set_column(7, WRITE.field("headers"), pa.array(pairs, HEADERS))


def _without(column: str, table: pa.Table) -> pa.Table:
    at = table.schema.get_field_index(column)
    some = pa.array([None, *table.column(column).to_pylist()[1:]], WRITE.field(at).type)
    return table.set_column(at, WRITE.field(at), some)


def _as(column: str, kind: pa.DataType, table: pa.Table) -> pa.Table:
    at = table.schema.get_field_index(column)
    return table.set_column(at, column, table.column(at).cast(kind))


ROWS: list[Row] = [(n, n, 0, b"k", b"value %d" % n) for n in range(100)]
SOME = table_of(ROWS)
LEFT: dict[str, tuple[pa.Table, dict[str, Any]]] = {
    "headers": (_headers(SOME), {}),
    "empty headers": (_empty_headers(SOME), {}),
    "no offset": (_without("offset", SOME), {}),
    "no timestamp": (_without("timestamp", SOME), {}),
    "no timestamp type": (_without("timestampType", SOME), {}),
    "not sorted": (SOME.take(pa.array([1, 0, *range(2, 100)])), {}),
    "an offset twice": (SOME.take(pa.array([0, 0, *range(2, 100)])), {}),
    "milliseconds": (_as("timestamp", pa.timestamp("ms", "UTC"), SOME), {}),
    "a time of nowhere": (_as("timestamp", pa.timestamp("us"), SOME), {}),
    "text": (_as("key", pa.string(), SOME), {}),
    "wide offsets": (_as("timestampType", pa.int64(), SOME), {}),
    "a column that is not there": (SOME.drop_columns(["key"]), {}),
    "another codec": (SOME, {"compression": "snappy"}),
    "codecs": (SOME, {"compression": {"value": "snappy", "key": "zstd"}}),
    "no checksums": (SOME, {"write_page_checksum": False}),
    "pages of the second version": (SOME, {"data_page_version": "2.0"}),
    "plain offsets": (SOME, {"column_encoding": None}),
    "lengths apart": (
        SOME, {"column_encoding": {"value": "DELTA_LENGTH_BYTE_ARRAY"}},
    ),
    "tiny pages": (SOME, {"data_page_size": 10, "write_batch_size": 10}),
}  # fmt: skip


def test_what_is_left_is_left_for_one_reason(tmp_path: Path) -> None:
    write_like_ours(tmp_path / "f.parquet", SOME)
    assert placed(tmp_path / "f.parquet") == [ROWS]


@pytest.mark.parametrize("why", LEFT)
def test_what_is_not_like_ours_is_left_to_arrow(tmp_path: Path, why: str) -> None:
    table, options = LEFT[why]
    write_like_ours(tmp_path / "f.parquet", table, **options)
    assert pq.read_table(tmp_path / "f.parquet", partitioning=None).num_rows == 100
    assert placed(tmp_path / "f.parquet") is None


def test_columns_in_another_order_and_beside_others(tmp_path: Path) -> None:
    names = ["value", "headers", "theirs", "offset", "key", "timestampType"]
    theirs = pa.array([[{"a": n, "b": [n]}] for n in range(100)])
    table = SOME.append_column("theirs", theirs)
    write_like_ours(
        tmp_path / "f.parquet", table.select([*names, "timestamp", "topic"])
    )
    assert placed(tmp_path / "f.parquet") == [ROWS]


def test_one_that_is_not_there_is_not_taken_for_another(tmp_path: Path) -> None:
    nowhere = Layout(0, 1, bytes(8 * 3 * 7))
    with pytest.raises(FileNotFoundError):
        read_places(str(tmp_path / "f"), nowhere, taken, rows_of)


def test_a_file_that_was_cut_is_left_to_arrow(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    write_like_ours(path, SOME)
    [group], leaves = read_groups(str(path)), leaves_of(SOME.schema)
    assert leaves is not None
    layout = layout_of(group, leaves)
    assert layout is not None
    whole = path.read_bytes()
    for size in range(0, len(whole), 97):
        path.write_bytes(whole[:size])
        found = read_places(str(path), layout, taken, rows_of)
        assert found in (None, [ROWS])


@pytest.mark.parametrize("compression", ["zstd", "none"])
def test_a_flipped_bit_anywhere_makes_no_other_rows(
    tmp_path: Path, compression: str
) -> None:
    """Of pages, their headers and the footer, each for one that is read and refused."""
    path = tmp_path / f"{0:020d}-{60:020d}-138b-1a20acdf693-2-1.parquet"
    found: list[Row] = [
        (n, 5 * n % 7, 0, b"k%d" % (n % 3), b"value %d" % n if n % 5 else None)
        for n in range(60)
    ]
    write_like_ours(path, table_of(found), compression=compression, row_group_size=30)
    done = subprocess.run(
        [sys.executable, "-c", FLIPS, str(path), str(EVERY)],
        capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode, done.stdout.strip()) == (0, "[] True"), done.stderr[-2000:]
