"""A merged file has just the rows of its sources, in the shape that readers like."""

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs import space
from jobs.merging import order, rewrite, room
from jobs.merging.background import Background
from jobs.merging.names import continued, ended, span_of, written_with
from jobs.merging.rewrite import Merged, MergeTask, digest_of, merge_files, stop_file
from jobs.rows import Failed, Written
from lakehouse.in_flight import hidden
from lakehouse.log.delta_log import load
from lakehouse.owners_columns import all_columns
from lakehouse.schema import ROW_GROUP_ROWS, WRITE
from tests.support.patience import wait_until
from tests.support.placed import Row, flat, placed, table_of
from tests.support.spelling import overwrite
from tests.support.tables import FIRST_MS, Writer, rows, write_file

TARGET = f"partition=0/{0:020d}-{5_000:020d}-a-b-1-1.parquet"


def task(root: Path, *tables: pa.Table, schema: pa.Schema = WRITE) -> MergeTask:
    names = [
        write_file(str(root), f"{number}", table).path
        for number, table in enumerate(tables)
    ]
    columns = schema.serialize().to_pybytes()
    return MergeTask(str(root), TARGET, 0, tuple(names), columns, str(root / "spill"))


def done(task: MergeTask) -> Written:
    [written] = all_done(task)
    return written


def all_done(task: MergeTask) -> tuple[Written, ...]:
    merged = merge_files(task)
    assert isinstance(merged, Merged), merged
    assert os.listdir(task.spill) == []
    return merged.files


def refused(task: MergeTask) -> Failed:
    failed = merge_files(task)
    assert isinstance(failed, Failed)
    assert not list(Path(task.root).rglob("*-a-b-1-*.parquet"))
    assert os.listdir(task.spill) == []
    return failed


def test_its_rows_are_those_of_its_sources(tmp_path: Path) -> None:
    parts = [rows(0, range(start, start + 70)) for start in range(0, 700, 70)]
    written = done(task(tmp_path, *parts))
    table = pq.read_table(tmp_path / TARGET, partitioning=None)
    assert table == rows(0, range(700))
    assert (written.path, written.rows) == (TARGET, 700)
    assert (written.first_offset, written.last_offset) == (0, 699)
    assert written.timestamp_min_ms == FIRST_MS
    assert written.timestamp_max_ms == FIRST_MS + 699
    assert written.size == (tmp_path / TARGET).stat().st_size


def test_a_column_is_called_as_the_table_calls_it_and_is_there_once(
    tmp_path: Path,
) -> None:
    """Spark reads no file that has both ``topic`` and ``Topic``."""
    writer = Writer(str(tmp_path))
    overwrite(writer.path, ["topic"])
    metadata = load(writer.path).metadata
    assert metadata is not None
    columns = all_columns(metadata.schema_string)
    done(task(tmp_path, rows(0, range(70)), schema=columns))
    table = pq.read_table(tmp_path / TARGET, partitioning=None)
    assert [name.lower() for name in table.column_names].count("topic") == 1
    assert table.select(["Topic"]).to_pylist() == [{"Topic": "orders"}] * 70


def test_row_groups_are_those_of_the_schema(tmp_path: Path) -> None:
    count = ROW_GROUP_ROWS + 5_000
    parts = [rows(0, range(start, start + 3_000)) for start in range(0, count, 3_000)]
    done(task(tmp_path, *parts))
    footer = pq.read_metadata(tmp_path / TARGET)
    sizes = [footer.row_group(n).num_rows for n in range(footer.num_row_groups)]
    assert sum(sizes) == count
    assert max(sizes) <= ROW_GROUP_ROWS
    assert len(sizes) <= 3
    group = footer.row_group(0)
    assert {group.column(n).compression for n in range(group.num_columns)} == {"ZSTD"}


@pytest.mark.parametrize("value", [b"the same", None])
def test_the_broker_reads_it_without_arrow(tmp_path: Path, value: bytes | None) -> None:
    found: list[Row] = [
        (n, n // 5, 0, b"%d" % (n % 7), value or b"%d" % n) for n in range(3_000)
    ]
    parts = [table_of(found[start : start + 500]) for start in range(0, 3_000, 500)]
    done(task(tmp_path, *parts))
    groups = placed(tmp_path / TARGET)
    assert groups is not None
    assert flat(groups) == found


def test_heavy_rows_make_smaller_row_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rewrite, "GROUP_BYTES", 10_000)
    done(task(tmp_path, rows(0, range(1_000))))
    footer = pq.read_metadata(tmp_path / TARGET)
    sizes = [footer.row_group(n).total_byte_size for n in range(footer.num_row_groups)]
    assert len(sizes) > 3
    assert max(sizes) < 40_000


def test_a_dictionary_is_made_where_it_pays(tmp_path: Path) -> None:
    plain = rows(0, range(1_000))
    keys = pa.array([b"k%d" % (n % 7) for n in range(1_000)], pa.binary())
    repeating = plain.set_column(5, "key", keys)
    found = []
    for table in (plain, repeating):
        done(task(tmp_path, table))
        group = pq.read_metadata(tmp_path / TARGET).row_group(0)
        columns = {group.column(n).path_in_schema: n for n in range(group.num_columns)}
        found.append(group.column(columns["key"]).has_dictionary_page)
        assert not group.column(columns["value"]).has_dictionary_page
    assert found == [False, True]


def test_files_in_no_order_become_sorted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(order, "RUN_BYTES", 4_000)
    one = rows(0, [*range(0, 400, 2), *range(999, 599, -1)])
    done(task(tmp_path, one, rows(0, [*range(599, 399, -1), *range(1, 400, 2)])))
    table = pq.read_table(tmp_path / TARGET, partitioning=None)
    assert table == rows(0, range(1_000))


def cut(root: Path, monkeypatch: pytest.MonkeyPatch) -> MergeTask:
    """Of a thousand rows in no order, which are to be files of 4 kB or so."""
    monkeypatch.setattr(rewrite, "GROUP_BYTES", 5_000)
    tables = rows(0, range(999, -1, -2)), rows(0, range(0, 1_000, 2))
    return task(root, *tables)._replace(bytes_max=4_000)


def test_what_would_be_too_large_a_file_becomes_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = all_done(cut(tmp_path, monkeypatch))
    assert len(files) > 2
    assert all(file.size >= 4_000 for file in files[:-1])
    assert max(file.size for file in files) < 12_000, "the last groups were in memory"
    tables = [pq.read_table(tmp_path / file.path, partitioning=None) for file in files]
    assert pa.concat_tables(tables) == rows(0, range(1_000))
    for file, table in zip(files, tables, strict=True):
        first = table["offset"][0].as_py()
        assert (file.first_offset, file.rows) == (first, table.num_rows)
        assert file.last_offset == table["offset"][-1].as_py()
    paths = [TARGET, *(continued(TARGET, file.first_offset) for file in files[1:])]
    ends = [file.first_offset for file in files[1:]]
    paths[:-1] = map(ended, paths[:-1], ends)
    assert [file.path for file in files] == paths
    assert span_of(paths[1]) == (0, ends[0], ends[1])
    assert span_of(paths[-1]) == (0, ends[-1], 5_000)
    directory = (tmp_path / TARGET).parent
    assert {path.name for path in directory.glob(f"*{written_with(TARGET)}*")} == {
        (tmp_path / path).name for path in paths
    }


def test_none_of_some_files_is_left_when_the_last_one_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = cut(tmp_path, monkeypatch)
    twice = write_file(str(tmp_path), "twice", rows(0, [999])).path
    assert (
        "999 is there twice"
        in refused(found._replace(sources=(*found.sources, twice))).why
    )


def test_no_file_has_its_place_before_all_are_written_and_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A VACUUM takes what it saw for longer than `AHEAD_MS` before the commit."""
    found = cut(tmp_path, monkeypatch)
    seen: list[Path] = []
    read = digest_of

    def look(*_: Any) -> None:
        seen.extend((tmp_path / "partition=0").glob("*-a-b-1-*"))

    def digest(paths: Any, **more: Any) -> Any:
        look()
        return read(paths, **more)

    monkeypatch.setattr(rewrite, "passing", look)
    monkeypatch.setattr(rewrite, "digest_of", digest)
    files = all_done(found)
    assert len(files) > 2
    assert seen == []


def test_gaps_stay_gaps(tmp_path: Path) -> None:
    done(task(tmp_path, rows(0, [5, 9]), rows(0, [100, 1_000])))
    table = pq.read_table(tmp_path / TARGET, partitioning=None)
    assert table["offset"].to_pylist() == [5, 9, 100, 1_000]


def without(table: pa.Table, column: str) -> pa.Table:
    found = table.to_pylist()
    found[3][column] = None
    return pa.Table.from_pylist(found, table.schema)


@pytest.mark.parametrize(
    ("table", "why"),
    [
        (rows(0, range(90, 120)), "offset 90 is there twice"),
        (rows(0, [*range(200, 210), 205]), "offset 205 is there twice"),
        (without(rows(0, range(100, 110)), "timestamp"), "without a timestamp"),
    ],
)
def test_what_is_odd_is_left_as_it_is(tmp_path: Path, table: Any, why: str) -> None:
    assert why in refused(task(tmp_path, rows(0, range(100)), table)).why


def test_rows_of_another_partition_are_left_as_they_are(tmp_path: Path) -> None:
    found = task(tmp_path, rows(0, range(10)))
    assert "partitions [0]" in refused(found._replace(partition=1)).why


def test_a_source_that_is_gone_is_looked_for_again(tmp_path: Path) -> None:
    found = task(tmp_path, rows(0, range(10)), rows(0, range(10, 20)))
    (tmp_path / found.sources[1]).unlink()
    assert refused(found).stale


def test_a_damaged_page_is_no_source(tmp_path: Path) -> None:
    found = task(tmp_path, rows(0, range(1_000)))
    done(found)
    (tmp_path / TARGET).rename(tmp_path / found.sources[0])
    source = tmp_path / found.sources[0]
    text = bytearray(source.read_bytes())
    text[len(text) // 3] ^= 1
    source.write_bytes(text)
    assert not refused(found).stale


@pytest.mark.parametrize("lost", [0, -1])
def test_a_row_that_was_lost_on_the_way_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: int
) -> None:
    whole = order.in_order

    def losing(*arguments: Any) -> Any:
        tables = list(whole(*arguments))
        tables[lost] = tables[lost].slice(1)
        return iter(tables)

    monkeypatch.setattr(order, "in_order", losing)
    found = task(tmp_path, rows(0, range(100)), rows(0, range(100, 150)))
    assert "not what was read" in refused(found).why


def test_digests_know_offsets_and_not_their_order(tmp_path: Path) -> None:
    def digest(*offsets: int) -> rewrite.Digest:
        path = tmp_path / "some.parquet"
        pq.write_table(rows(0, offsets), path)
        return digest_of([str(path)])

    assert digest(1, 2, 3) == digest(3, 1, 2)
    others = [(1, 2), (1, 2, 4), (0, 3, 3), (2, 2, 2), (1, 2, 3, 0)]
    assert digest(1, 2, 3) not in [digest(*offsets) for offsets in others]


def test_an_owners_columns_survive(tmp_path: Path) -> None:
    schema = WRITE.append(pa.field("x", pa.string()))
    theirs = rows(0, range(10)).append_column("x", pa.array(["their"] * 10))
    done(task(tmp_path, theirs, rows(0, range(10, 20)), schema=schema))
    table = pq.read_table(tmp_path / TARGET, partitioning=None)
    assert table["x"].to_pylist() == ["their"] * 10 + [None] * 10
    assert table.drop_columns(["x"]) == rows(0, range(20))


def test_a_merge_that_waits_for_its_turn_ends_when_it_is_to(tmp_path: Path) -> None:
    found = task(tmp_path, rows(0, range(100)))._replace(bytes_per_s=1)
    (tmp_path / "spill").mkdir()
    background = Background(merge_files)
    background.start(found)
    wait_until(Path(hidden(str(tmp_path / TARGET))).exists)
    Path(stop_file(found.spill)).touch()
    background.wait()
    done = background.take()
    assert isinstance(done, Failed)
    assert done.stale
    assert not list(tmp_path.rglob("*-a-b-1-*.parquet"))
    assert os.listdir(found.spill) == ["stop"]


@pytest.mark.parametrize("overlaps", [True, False], ids=["runs", "written"])
def test_a_disk_that_is_nearly_full_is_left_to_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overlaps: bool
) -> None:
    parts = rows(0, range(0, 20, 2)), rows(0, range(1 if overlaps else 21, 40, 2))
    found = task(tmp_path, *parts)
    monkeypatch.setattr(room, "ROOM_BYTES", 1 << 62)
    monkeypatch.setattr(space, "SHARE", 1)
    failed = refused(found)
    assert failed.stale, "it is tried again"
    assert "bytes are free" in failed.why
