"""Rows of large row groups: the right ones, and never many more than are wanted."""

import os
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakehouse.errors import ChunkTooLarge, FileVanished, TableUnreadable
from lakehouse.files import large_groups
from lakehouse.files.footers import Footers
from lakehouse.files.large_groups import LargeGroups
from lakehouse.log.delta_log import load
from lakehouse.plain import numbers
from lakehouse.schema import READ
from tests.support.tables import Writer, rows

COUNT = 3_000


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Files of one row group, in order and in none."""
    made = {}
    for name in ("sorted", "scattered"):
        order = list(range(COUNT))
        if name == "scattered":
            random.Random(1).shuffle(order)
        writer = Writer(str(tmp_path_factory.mktemp(name)))
        writer.add(0, 0, COUNT, order=order, row_group_rows=COUNT)
        (file,) = load(writer.path).files
        made[name] = os.path.join(writer.path, file)
    return made


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if all were a thousand times as large."""
    monkeypatch.setattr(large_groups, "SLAB_BYTES", 40_000)
    monkeypatch.setattr(large_groups, "SLABS_KEPT_BYTES", 80_000)
    monkeypatch.setattr(large_groups, "ROWS_BYTES_MAX", 120_000)
    monkeypatch.setattr(large_groups, "BATCH_ROWS", 100)


def assert_holds(table: Any, low: int, high: int) -> None:
    offsets = list(range(low, min(high, COUNT - 1) + 1))
    assert table.select(READ).to_pylist() == rows(0, offsets).select(READ).to_pylist()


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    ranges=st.lists(
        st.tuples(st.integers(0, COUNT), st.integers(0, 300)), min_size=1, max_size=6
    ),
    name=st.sampled_from(["sorted", "scattered"]),
)
def test_any_range_holds_its_rows_in_order(
    paths: dict[str, str], ranges: list[tuple[int, int]], name: str
) -> None:
    groups = LargeGroups(Footers())
    for low, count in ranges:
        assert_holds(groups.rows(paths[name], 0, low, low + count), low, low + count)
        assert groups.size_bytes <= large_groups.SLABS_KEPT_BYTES


@pytest.mark.parametrize("name", ["sorted", "scattered"])
def test_who_reads_on_decodes_once_for_each_slab(
    paths: dict[str, str], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups, opened = LargeGroups(Footers()), list[bool]()
    original = Footers.open_in_pieces

    def watched(self: Footers, path: str, group: int) -> Any:
        opened.append(True)
        return original(self, path, group)

    monkeypatch.setattr(Footers, "open_in_pieces", watched)
    size = 0
    for low in range(0, COUNT, 50):
        found = groups.rows(paths[name], 0, low, low + 49)
        assert_holds(found, low, low + 49)
        size += found.nbytes
    slabs = size // large_groups.SLAB_BYTES
    assert 2 <= slabs <= sum(opened) <= 3 * slabs


def test_a_slab_that_is_too_large_shrinks_while_it_is_read(
    paths: dict[str, str],
) -> None:
    """The file says nothing of what a dictionary makes of its bytes."""
    footers = Footers()
    real = footers.get(paths["scattered"])
    small = [group._replace(bytes=1) for group in real.groups]
    footers._kept[paths["scattered"]] = real._replace(groups=small)
    groups = LargeGroups(footers)
    assert_holds(groups.rows(paths["scattered"], 0, 100, 199), 100, 199)
    assert groups.size_bytes > large_groups.SLAB_BYTES // 4
    assert groups.size_bytes < 2 * large_groups.SLAB_BYTES


@pytest.mark.parametrize("name", ["sorted", "scattered"])
def test_rows_that_are_too_large_together_are_given_in_parts(
    paths: dict[str, str], name: str
) -> None:
    groups, low, parts = LargeGroups(Footers()), 0, 0
    while low < COUNT:
        high = COUNT - 1
        try:
            groups.rows(paths[name], 0, low, high)
        except ChunkTooLarge as error:
            high = error.fits
        assert groups.size_bytes <= large_groups.SLABS_KEPT_BYTES
        assert_holds(groups.rows(paths[name], 0, low, high), low, high)
        low, parts = high + 1, parts + 1
    assert parts > 3


def test_a_row_that_no_memory_should_hold_is_refused(
    paths: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large_groups, "SLAB_BYTES", 10)
    monkeypatch.setattr(large_groups, "ROWS_BYTES_MAX", 20)
    groups = LargeGroups(Footers())
    with pytest.raises(TableUnreadable, match="the rows at offset 7 would take more"):
        groups.rows(paths["sorted"], 0, 7, COUNT - 1)
    assert groups.size_bytes == 0


@pytest.mark.parametrize("portion", [1, 900, 1 << 20])
def test_what_the_file_has_once_becomes_rows_in_portions(
    tmp_path: Path, portion: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large_groups, "PORTION_BYTES", portion)
    made = rows(0, range(COUNT))
    values = [[None, b"", b"v" * 100, b"w" * 1_000][n % 4] for n in range(COUNT)]
    at = made.schema.get_field_index("value")
    made = made.set_column(at, "value", pa.array(values, pa.binary()))
    path = str(tmp_path / "f.parquet")
    pq.write_table(made, path, row_group_size=COUNT)
    kept: list[int] = []
    original = large_groups._Growing._keep

    def watched(self: Any, some: Any, chosen: Any) -> None:
        kept.append(
            sum(len(values[o]) for o in numbers(some["offset"])[chosen] if values[o])
        )
        original(self, some, chosen)

    with monkeypatch.context() as patch:
        patch.setattr(large_groups._Growing, "_keep", watched)
        found = LargeGroups(Footers()).rows(path, 0, 500, 520)
    assert found.to_pylist() == made.slice(500, 21).select(READ).to_pylist()
    assert max(kept) <= portion + 1_000


def test_a_file_that_is_gone_is_said(tmp_path: Path) -> None:
    with pytest.raises(FileVanished):
        LargeGroups(Footers()).rows(str(tmp_path / "none.parquet"), 0, 0, 1)


def test_slabs_that_were_dropped_are_read_again(paths: dict[str, str]) -> None:
    groups = LargeGroups(Footers())
    groups.rows(paths["sorted"], 0, 0, 300)
    groups.clear()
    assert groups.size_bytes == 0
    assert_holds(groups.rows(paths["sorted"], 0, 0, 300), 0, 300)
