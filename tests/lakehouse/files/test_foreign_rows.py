"""Rows in the way: those that are, and not the files that only span a range."""

import os
from collections.abc import Sequence
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakehouse.files import footers
from lakehouse.files.foreign_rows import ForeignRows, foreign_rows
from lakehouse.log.delta_log import load
from tests.support.tables import Writer, rows


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    return Writer(str(tmp_path))


def insert(writer: Writer, partition: int, offsets: Sequence[int]) -> str:
    """An owner's INSERT; the path of its file."""
    before = set(paths(writer))
    table = rows(partition, offsets)
    deltalake.write_deltalake(writer.path, table, mode="append")
    [path] = set(paths(writer)) - before
    return path


def paths(writer: Writer) -> list[str]:
    root = deltalake.DeltaTable(writer.path)
    found: list[str] = pa.table(root.get_add_actions())["path"].to_pylist()
    return found


def look(writer: Writer, ranges: dict[int, tuple[int, int]]) -> dict[int, ForeignRows]:
    return foreign_rows(writer.path, load(writer.path).files.values(), ranges)


def test_a_table_without_files_has_none(writer: Writer) -> None:
    assert look(writer, {0: (0, 10), 1: (5, 6)}) == {}


def test_rows_of_another_partition_are_in_nobodys_way(writer: Writer) -> None:
    path = insert(writer, 1, [3, 4])
    assert look(writer, {0: (0, 10)}) == {}
    assert look(writer, {0: (0, 10), 1: (0, 10)}) == {1: ForeignRows(3, 4, path)}


def test_a_file_that_is_not_there_is_as_the_log_has_it(writer: Writer) -> None:
    path = insert(writer, 0, [3, 8])
    os.unlink(os.path.join(writer.path, path))
    assert look(writer, {0: (4, 6)}) == {0: ForeignRows(3, 8, path)}
    assert look(writer, {0: (9, 20)}) == {}


def test_where_no_file_has_statistics_each_footer_is_read_once(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = {"delta.dataSkippingStatsColumns": "topic"}
    deltalake.DeltaTable(writer.path).alter.set_table_properties(without)
    for first in range(0, 30, 10):
        insert(writer, 0, range(first, first + 10))
    read: list[str] = []

    def noted(path: str) -> footers.Footer:
        read.append(path)
        return read_footer(path)

    read_footer = footers._read
    monkeypatch.setattr(footers, "_read", noted)
    monkeypatch.setattr("lakehouse.files.foreign_rows._footers", footers.Footers(1))
    for _ in range(2):
        assert look(writer, {0: (30, 40)}) == {}
    assert len(read) == 3
    assert look(writer, {0: (25, 40)})[0].low == 25


@settings(max_examples=25, suppress_health_check=list(HealthCheck), deadline=None)
@given(
    files=st.lists(
        st.tuples(
            st.integers(0, 1),
            st.lists(st.integers(0, 40), min_size=1, max_size=8, unique=True),
        ),
        max_size=4,
    ),
    first=st.integers(0, 40),
    count=st.integers(1, 10),
)
def test_what_is_found_is_what_a_search_of_all_rows_finds(
    tmp_path_factory: pytest.TempPathFactory,
    files: list[tuple[int, list[int]]],
    first: int,
    count: int,
) -> None:
    writer = Writer(str(tmp_path_factory.mktemp("any")))
    for partition, offsets in files:
        insert(writer, partition, offsets)
    wanted = range(first, first + count)
    found = look(writer, {0: (first, first + count), 1: (first, first + count)})
    expected = {p for p, offsets in files if set(offsets) & set(wanted)}
    assert found.keys() == expected
    for rows_found in found.values():
        assert {rows_found.low, rows_found.high} <= set(wanted)
