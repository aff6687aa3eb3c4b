"""Rows in order, whatever order they are in, however little memory there is."""

import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.merging import order
from jobs.merging.order import NotMergeable, Source, in_order, is_in_order, units_of
from lakehouse.errors import FileVanished, TableUnreadable
from lakehouse.files.footers import Footers
from lakehouse.schema import WRITE
from tests.support.spelling import otherwise
from tests.support.tables import rows


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "spill").mkdir()
    return tmp_path


def write(folder: Path, *tables: pa.Table, group: int = 100) -> list[str]:
    paths = [str(folder / f"{number}.parquet") for number in range(len(tables))]
    for path, table in zip(paths, tables, strict=True):
        pq.write_table(table, path, row_group_size=group)
    return paths


def ordered(folder: Path, paths: list[str], schema: pa.Schema = WRITE) -> Any:
    spill = folder / "spill"
    found = in_order(Source(paths, 0, schema), Footers(), str(spill))
    table = pa.concat_tables(found)
    assert os.listdir(spill) == []
    return table


def shuffled(count: int, first: int = 0) -> list[int]:
    offsets = list(range(first, first + count))
    random.Random(count).shuffle(offsets)
    return offsets


def test_files_in_order_are_read_as_they_are(folder: Path) -> None:
    paths = write(folder, rows(0, range(250)), rows(0, range(250, 300)))
    assert is_in_order(units_of(paths, Footers()))
    assert ordered(folder, paths) == rows(0, range(300))


def test_a_small_group_in_no_order_is_sorted_alone(folder: Path) -> None:
    paths = write(folder, rows(0, shuffled(90)), rows(0, range(90, 100)))
    assert is_in_order(units_of(paths, Footers()))
    assert ordered(folder, paths) == rows(0, range(100))


@pytest.mark.parametrize("run_bytes", [1, 4_000, 1 << 30], ids=["tiny", "some", "one"])
@pytest.mark.parametrize("step_bytes", [1, 500, 1 << 20])
def test_what_overlaps_is_sorted_with_runs(
    folder: Path, monkeypatch: pytest.MonkeyPatch, run_bytes: int, step_bytes: int
) -> None:
    monkeypatch.setattr(order, "RUN_BYTES", run_bytes)
    monkeypatch.setattr(order, "STEP_BYTES", step_bytes)
    offsets = shuffled(700)
    paths = write(folder, rows(0, offsets[:400]), rows(0, offsets[400:]))
    assert not is_in_order(units_of(paths, Footers()))
    assert ordered(folder, paths) == rows(0, range(700))


@pytest.mark.parametrize("most", [2, 3, 20])
def test_many_runs_become_a_few_first(
    folder: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(order, "RUN_BYTES", 2_000)
    monkeypatch.setattr(order, "RUNS_MAX", most)
    together: list[int] = []
    side_by_side = order._side_by_side

    def counted(paths: Any) -> Any:
        together.append(len(paths))
        return side_by_side(paths)

    monkeypatch.setattr(order, "_side_by_side", counted)
    spilled: list[int] = []
    offsets = shuffled(2_000)
    paths = write(folder, rows(0, offsets[:900]), rows(0, offsets[900:]))
    source = Source(paths, 0, WRITE, spilled.append)
    found = pa.concat_tables(in_order(source, Footers(), str(folder / "spill")))
    assert found == rows(0, range(2_000))
    assert max(together) == most
    assert sum(spilled) >= 2_000, "who keeps a pace hears of each row that is spilled"


def test_files_one_behind_the_other_but_given_otherwise(folder: Path) -> None:
    paths = write(folder, rows(0, range(100)), rows(0, range(100, 200)))
    assert ordered(folder, paths[::-1]) == rows(0, range(200))


def test_a_large_group_is_read_in_pieces(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(order, "WHOLE_ROWS_MAX", 100)
    paths = write(folder, rows(0, shuffled(3_000)), group=3_000)
    assert not is_in_order(units_of(paths, Footers()))
    assert ordered(folder, paths) == rows(0, range(3_000))


def test_an_owners_columns_come_along(folder: Path) -> None:
    theirs = rows(0, shuffled(50)).append_column("x", pa.array(range(50)))
    schema = WRITE.append(pa.field("x", pa.int64()))
    found = ordered(folder, write(folder, theirs, rows(0, range(20, 80))), schema)
    assert found.schema == schema
    by_offset = sorted(theirs.to_pylist(), key=lambda row: row["offset"])
    assert [row for row in found.to_pylist() if row["x"] is not None] == by_offset


def test_columns_come_along_however_a_file_spells_them(folder: Path) -> None:
    theirs = otherwise(rows(0, shuffled(50))).append_column("X", pa.array(range(50)))
    schema = WRITE.append(pa.field("x", pa.int64()))
    found = ordered(folder, write(folder, theirs, rows(0, range(50, 80))), schema)
    assert found.select(WRITE.names).to_pylist() == rows(0, range(80)).to_pylist()
    assert sorted(found["x"].to_pylist()[:50]) == list(range(50))


@pytest.mark.parametrize("group", [50, 1_000])
@pytest.mark.parametrize("is_shuffled", [True, False])
@pytest.mark.parametrize("run_bytes", [1, 1 << 20])
def test_rows_are_left_out_by_their_numbers_in_the_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch, group: int, run_bytes: int, *,
    is_shuffled: bool,
) -> None:  # fmt: skip
    monkeypatch.setattr(order, "RUN_BYTES", run_bytes)
    offsets = shuffled(300) if is_shuffled else list(range(300))
    offsets[7] = offsets[3]
    paths = write(folder, rows(0, offsets), group=group)
    taken = [3, *range(50, 100), 299]
    source = Source(paths, 0, WRITE, taken={paths[0]: np.array(taken)})
    found = pa.concat_tables(in_order(source, Footers(), str(folder / "spill")))
    left = [o for number, o in enumerate(offsets) if number not in taken]
    assert found == rows(0, sorted(left))


def test_what_repeats_an_offset_stays_twice(folder: Path) -> None:
    paths = write(folder, rows(0, range(30)), rows(0, range(20, 40)))
    offsets = ordered(folder, paths)["offset"].to_pylist()
    assert offsets == sorted([*range(30), *range(20, 40)])


@pytest.mark.parametrize("shared", [True, False], ids=["sorted", "runs"])
def test_a_row_without_an_offset_is_not_moved(folder: Path, shared: bool) -> None:
    table = rows(0, range(50)).to_pylist()
    table[7]["offset"] = None
    other = rows(0, range(50, 60) if shared else range(40, 60))
    paths = write(folder, pa.Table.from_pylist(table, WRITE), other)
    with pytest.raises(NotMergeable, match="without an offset"):
        ordered(folder, paths)


def test_what_is_damaged_or_gone_is_told(folder: Path) -> None:
    paths = write(folder, rows(0, range(50)))
    with pytest.raises(FileVanished):
        ordered(folder, [*paths, str(folder / "none.parquet")])
    with open(paths[0], "r+b") as file:
        file.truncate(100)
    with pytest.raises(TableUnreadable):
        ordered(folder, paths)


def largest(folder: Path, paths: list[str], schema: pa.Schema = WRITE) -> int:
    """Bytes of the largest table that comes out; the rows are there, in order."""
    source = Source(paths, 0, schema)
    offsets: list[int] = []
    size = 0
    for table in in_order(source, Footers(), str(folder / "spill")):
        offsets += table["offset"].to_pylist()
        size = max(size, table.nbytes)
    assert offsets == sorted(offsets)
    assert len(offsets) == sum(pq.read_metadata(path).num_rows for path in paths)
    return size


def test_what_a_dictionary_makes_of_an_owners_column_is_counted(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(order, "WHOLE_BYTES_MAX", 1 << 20)
    monkeypatch.setattr(order, "RUN_BYTES", 1 << 20)
    monkeypatch.setattr(order, "STEP_BYTES", 1 << 16)
    theirs = rows(0, range(2_000)).append_column("x", pa.array(["x" * 5_000] * 2_000))
    paths = write(folder, theirs, group=2_000)
    assert os.path.getsize(paths[0]) < 1 << 20
    assert is_in_order(units_of(paths, Footers()))
    schema = WRITE.append(pa.field("x", pa.string()))
    assert largest(folder, paths, schema) < 1 << 20


def test_steps_of_runs_are_small_wherever_the_large_rows_are(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(order, "RUN_BYTES", 1 << 20)
    monkeypatch.setattr(order, "STEP_BYTES", 1 << 16)
    offsets = shuffled(20_000)
    values = [os.urandom(30_000 if offset < 200 else 20) for offset in offsets]
    table = rows(0, offsets)
    at = table.schema.get_field_index("value")
    table = table.set_column(at, "value", pa.array(values, pa.binary()))
    paths = write(folder, table, group=1_000)
    assert not is_in_order(units_of(paths, Footers()))
    assert largest(folder, paths) < 2 << 20
