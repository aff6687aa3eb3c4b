"""Rows are found in every file of a table's directory, live or not."""

import os
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.erasing.partitions import (
    CHANGES,
    Partitions,
    by_directory,
    partitions_of,
)
from jobs.erasing.search import (
    LINKED,
    OTHERS,
    at_offsets,
    by_key,
    data_files,
    distinct,
    offsets_by_partition,
)
from lakehouse.log.delta_log import load
from tests.support.spelling import overwrite
from tests.support.tables import Writer


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    made = Writer(str(tmp_path))
    made.add(0, 0, 20)
    made.add(1, 0, 20)
    made.add(0, 20, 40)
    return made


def all_of(writer: Writer) -> Partitions:
    return {path: by_directory(path) for path in data_files(writer.path).files}


def beside(writer: Writer, path: str, rows: dict[str, object]) -> str:
    """A file of rows that no commit names."""
    place = Path(writer.path) / path
    place.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(rows), place)
    return path


def test_all_files_of_rows_are_listed_and_none_of_the_log(writer: Writer) -> None:
    (Path(writer.path) / "_delta_log" / "x.checkpoint.parquet").write_bytes(b"")
    feed = beside(writer, f"{CHANGES}/partition=0/cdc-1.parquet", {"offset": [1]})
    found = data_files(writer.path).files
    assert len(found) == 4
    assert found[0] == feed


def test_a_parquet_file_is_listed_whatever_its_name_is(writer: Writer) -> None:
    """As some engines call theirs; and a file that the log has is one of rows, even if
    nothing of it can be read."""
    bare = beside(
        writer, "partition=0/20261128_101010_00009_8t2sc_f3b5", {"offset": [1]}
    )
    Path(writer.path, "partition=0", "torn").write_bytes(b"")
    Path(writer.path, "partition=0", "notes.txt").write_text("PAR2")
    os.mkfifo(Path(writer.path, "partition=0", "pipe"))
    before = set(data_files(writer.path).files)
    assert bare in before
    found = set(data_files(writer.path, {"partition=0/torn", "partition=0/gone"}).files)
    assert found - before == {"partition=0/torn"}
    assert not any(name in path for path in before for name in ("notes", "pipe"))


def test_another_table_and_what_a_link_leads_to_are_told_and_not_listed(
    writer: Writer, tmp_path_factory: pytest.TempPathFactory
) -> None:
    aside = tmp_path_factory.mktemp("aside")
    before = data_files(writer.path)
    assert before.unsearched == {}
    beside(writer, "_mine/cities/_delta_log/1.checkpoint.parquet", {"offset": [1]})
    beside(writer, "_mine/cities/below/part-1.parquet", {"offset": [1]})
    pq.write_table(pa.table({"offset": [1]}), aside / "cdc-1.parquet")
    (aside / "notes.txt").write_text("mine")
    root = Path(writer.path)
    (root / CHANGES).symlink_to(aside)
    (root / "partition=0" / "linked.parquet").symlink_to(aside / "cdc-1.parquet")
    (root / "partition=0" / "notes.txt").symlink_to(aside / "notes.txt")
    assert data_files(writer.path) == (before.files, {
        "_mine/cities": OTHERS, CHANGES: LINKED, "partition=0/linked.parquet": LINKED,
    })  # fmt: skip


def test_a_key_is_found_in_its_rows(writer: Writer) -> None:
    found = by_key(b"key-7")(writer.path, all_of(writer))
    assert [list(map(int, some)) for some in found.offsets.values()] == [[7], [7]]
    both = offsets_by_partition(found, all_of(writer))
    assert {p: some.tolist() for p, some in both.items()} == {0: [7], 1: [7]}
    assert by_key(b"key-")(writer.path, all_of(writer)).offsets == {}


def test_a_key_is_found_under_whatever_name_its_owner_wrote_it(writer: Writer) -> None:
    """A version of the table that he wrote over since, and that stays for a while."""
    overwrite(writer.path)
    paths = data_files(writer.path).files
    found = by_key(b"key-7")(writer.path, partitions_of(load(writer.path), paths))
    assert len(found.offsets) == 4
    assert found.unreadable == {}


def test_rows_without_an_offset_and_files_that_cannot_be_read_are_told(
    writer: Writer,
) -> None:
    odd = beside(writer, "partition=0/odd.parquet", {
        "offset": pa.array([None, 5], pa.int64()),
        "key": pa.array([b"key-7", b"key-7"], pa.binary()),
    })  # fmt: skip
    bad = beside(writer, "partition=0/bad.parquet", {"other": [1]})
    torn = "partition=0/torn.parquet"
    (Path(writer.path) / torn).write_bytes(b"PAR1")
    found = by_key(b"key-7")(writer.path, dict.fromkeys([odd, bad, torn], 0))
    assert found.offsets[odd].tolist() == [5]
    assert {path: rows.tolist() for path, rows in found.nameless.items()} == {odd: [0]}
    assert found.unreadable.keys() == {bad, torn}


def test_a_file_of_ours_whose_footer_is_damaged_is_told(writer: Writer) -> None:
    """Twenty offsets became minus twenty-one, by one bit, and Arrow read none: what was
    asked for was not found, and who asked believed it."""
    path = f"partition=0/{0:020d}-{20:020d}-138b-1a20acdf693-2.parquet"
    [whole] = [
        (Path(writer.path) / one).read_bytes()
        for one in data_files(writer.path).files
        if by_directory(one) == 1
    ]
    at = whole.index(b"\x16\x28", whole.rindex(b"\x06offset")) + 1
    (Path(writer.path) / path).write_bytes(whole[:at] + b"\x29" + whole[at + 1 :])
    found = by_key(b"key-7")(writer.path, {path: 0})
    assert not found.offsets
    assert set(found.unreadable) == {path}


def test_other_versions_of_rows_are_found_by_their_offsets(writer: Writer) -> None:
    wanted = {0: np.array([3, 25]), 1: np.array([100])}
    files = all_of(writer).items()
    found = at_offsets(writer.path, {path: wanted[p or 0] for path, p in files})
    assert sorted(some.tolist() for some in found.offsets.values()) == [[3], [25]]


def test_rows_without_an_offset_are_at_none_that_is_wanted(writer: Writer) -> None:
    some = pa.array([None, 5, None, 9, 7], pa.int32())
    path = beside(writer, "partition=0/odd.parquet", {"offset": some})
    found = at_offsets(writer.path, {path: np.array([0, 5, 9])})
    assert found.offsets[path].tolist() == [5, 9]
    assert (found.nameless, found.unreadable) == ({}, {})


def test_a_row_that_matches_takes_little_more_than_its_offset(writer: Writer) -> None:
    """A key may be all that a table has."""
    rows = 200_000
    keys = pa.array([b"hot"] * rows, pa.binary())
    path = beside(writer, "a.parquet", {"offset": np.arange(rows), "key": keys})
    tracemalloc.start()
    try:
        found = by_key(b"hot")(writer.path, {path: 0})
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(found.offsets[path]) == rows
    assert peak < 20 * rows


def test_offsets_that_lie_in_no_order_are_sorted_and_once() -> None:
    parts = [np.array([5, 7]), np.array([7, 3]), np.array([1])]
    assert distinct(parts).tolist() == [1, 3, 5, 7]
    assert distinct([]).tolist() == []
