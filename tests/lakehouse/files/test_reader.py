"""Rows from an offset on: right whatever the owner did to the files."""

import json
import os
import random
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.errors import FileVanished, TableUnreadable
from lakehouse.files import chunks, reader
from lakehouse.files.chunks import WHOLE_ROWS_MAX, Chunk, Source
from lakehouse.files.footers import Footers
from lakehouse.files.foreign_rows import has_rows
from lakehouse.files.reader import TableReader
from lakehouse.index import OffsetIndex
from lakehouse.log.actions import Vector
from lakehouse.log.delta_log import entry_path, load
from lakehouse.new_file import NewFile, statistics
from lakehouse.schema import READ, WRITE
from tests.support.bitmaps import delete_rows, inline
from tests.support.placed import Row, rows_of, table_of, taken, write_like_ours
from tests.support.tables import FIRST_MS, Writer, rows, write_file


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    return Writer(str(tmp_path))


def read_all(writer: Writer, partition: int = 0, offset: int = 0) -> pa.Table:
    """Everything from ``offset`` on, as the cold reader walks."""
    reader = TableReader()
    files = OffsetIndex.of(load(writer.path)).files_of(partition)
    parts = []
    while (found := reader.find(writer.path, files, offset)) is not None:
        table = reader.read(found.chunk)
        if table.num_rows:
            assert table.column("offset")[0].as_py() >= found.chunk.first_offset
            assert table.column("offset")[-1].as_py() <= found.chunk.last_offset
        parts.append(table)
        offset = found.chunk.last_offset + 1
    return pa.concat_tables(parts) if parts else rows(0, []).select(READ)


def assert_holds(table: pa.Table, offsets: list[int], partition: int = 0) -> None:
    assert table.to_pylist() == rows(partition, offsets).select(READ).to_pylist()


def append_theirs(writer: Writer, file: NewFile) -> None:
    """Commit a file as an owner does."""
    version = load(writer.path).version + 1
    body = {
        "path": file.path, "size": file.size, "stats": statistics(file),
        "partitionValues": {"partition": "0"}, "modificationTime": 1,
        "dataChange": True,
    }  # fmt: skip
    Path(entry_path(writer.path, version)).write_text(json.dumps({"add": body}))


def test_rows_come_back_as_they_went_in(writer: Writer) -> None:
    writer.add(0, 0, 250)
    writer.add(0, 250, 300)
    writer.add(1, 0, 30)
    assert_holds(read_all(writer), list(range(300)))
    assert_holds(read_all(writer, partition=1), list(range(30)), 1)


def test_a_chunk_is_a_row_group(writer: Writer) -> None:
    writer.add(0, 0, 250)
    files = OffsetIndex.of(load(writer.path)).files_of(0)
    found = TableReader().find(writer.path, files, 130)
    assert found is not None
    assert (found.chunk.first_offset, found.chunk.last_offset) == (100, 199)
    assert found.chunk.is_whole


def test_gaps_are_passed_over(writer: Writer) -> None:
    missing = [0, 1, *range(90, 130), 249]
    writer.add(0, 0, 250, missing=missing)
    present = sorted(set(range(250)) - set(missing))
    assert_holds(read_all(writer), present)
    later = read_all(writer, offset=95)["offset"].to_pylist()
    assert min(o for o in later if o >= 95) == 130


def rows_without_offsets(count: int) -> pa.Table:
    """What an owner's INSERT may leave out is null."""
    table = rows(0, [0] * count)
    for name in WRITE.names:
        if name not in ("partition", "value"):
            at = table.schema.get_field_index(name)
            field = table.schema.field(at)
            table = table.set_column(at, field, pa.nulls(count, field.type))
    return table


@pytest.mark.parametrize("is_compacted", [False, True])
@pytest.mark.parametrize("count", [1, 150, WHOLE_ROWS_MAX])
def test_rows_of_an_owner_without_an_offset_are_no_records(
    writer: Writer, count: int, *, is_compacted: bool
) -> None:
    writer.add(0, 0, 250)
    deltalake.write_deltalake(writer.path, rows_without_offsets(count), mode="append")
    if is_compacted:  # into one row group with records
        deltalake.DeltaTable(writer.path).optimize.compact()
    writer.add(0, 250, 300)
    assert_holds(read_all(writer), list(range(300)))
    files, reader = OffsetIndex.of(load(writer.path)).files_of(0), TableReader()
    times = (270, FIRST_MS + 270), (299, FIRST_MS + 299)
    assert reader.find_timestamp(writer.path, files, FIRST_MS + 270) == times[0]
    assert reader.max_timestamp(writer.path, files) == times[1]
    alone = files.files[-1:] if is_compacted else []
    assert not has_rows(writer.path, alone, 0, (300, 400))


def test_rows_that_the_owner_deleted_are_a_gap(writer: Writer) -> None:
    writer.add(0, 0, 250)
    writer.add(0, 250, 300)
    deltalake.DeltaTable(writer.path).delete("offset >= 40 AND offset < 260")
    assert_holds(read_all(writer), [*range(40), *range(260, 300)])


def test_a_table_that_the_owner_optimized_reads_the_same(writer: Writer) -> None:
    for n in range(5):
        writer.add(0, n * 100, n * 100 + 100)
        writer.add(1, n * 10, n * 10 + 10)
    metrics = deltalake.DeltaTable(writer.path).optimize.compact()
    assert metrics["numFilesRemoved"] == 10
    assert_holds(read_all(writer), list(range(500)))
    assert_holds(read_all(writer, partition=1), list(range(50)), 1)


def test_a_table_sorted_by_something_else_reads_the_same(writer: Writer) -> None:
    for n in range(5):
        writer.add(0, n * 100, n * 100 + 100)
    deltalake.DeltaTable(writer.path).optimize.z_order(["timestampType", "key"])
    (file,) = load(writer.path).files.values()
    offsets = pa.parquet.read_table(os.path.join(writer.path, file.path))["offset"]
    assert offsets.to_pylist() != sorted(offsets.to_pylist())
    assert_holds(read_all(writer), list(range(500)))


def test_runs_in_the_wrong_order_are_put_right(writer: Writer) -> None:
    """As Spark's OPTIMIZE concatenates files by size."""
    order = [*range(600, 1000), *range(300), *range(300, 600)]
    for group_rows in (70, 450, 1000):
        other = Writer(os.path.dirname(writer.path), f"g{group_rows}")
        other.add(0, 0, 1000, order=order, row_group_rows=group_rows)
        assert_holds(read_all(other), list(range(1000)))


def test_a_large_row_group_is_cut_into_windows(writer: Writer) -> None:
    count = WHOLE_ROWS_MAX + 10_000
    writer.add(0, 0, count, row_group_rows=count)
    files = OffsetIndex.of(load(writer.path)).files_of(0)
    reader = TableReader()
    found = reader.find(writer.path, files, 33_333)
    assert found is not None
    table = reader.read(found.chunk)
    assert table.num_rows <= 10_000
    assert_holds(table[3_333:3_336], [33_333, 33_334, 33_335])


def scattered(writer: Writer, first: int, end: int) -> None:
    """One row group in no order at all, as an owner's ZORDER BY (key) leaves it."""
    order = list(range(first, end))
    random.Random(1).shuffle(order)
    writer.add(0, first, end, order=order, row_group_rows=end - first)


def test_rows_in_no_order_make_a_plan_of_few_pieces(writer: Writer) -> None:
    """A run of two rows reaches over a third of the windows: their square is no plan
    that memory can hold."""
    count = WHOLE_ROWS_MAX + 10_000
    scattered(writer, 0, count)
    (file,) = load(writer.path).files.values()
    path = os.path.join(writer.path, file.relative_path)
    planned = chunks.plan([chunks.Source(path)], Footers())
    assert len(planned) == 5
    assert sum(len(chunk.pieces) for chunk in planned) <= count // 64
    table = TableReader().read(planned[3])
    assert table["offset"].to_pylist() == list(range(30_000, 40_000))
    assert_holds(table[3_333:3_336], [33_333, 33_334, 33_335])


def test_a_row_group_is_read_once_for_the_times_of_a_chunk(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = [*range(600, 1000), *range(300), *range(300, 600)]
    writer.add(0, 0, 1000, order=order, row_group_rows=1000)
    monkeypatch.setattr(chunks, "WHOLE_ROWS_MAX", 8)
    files, table = OffsetIndex.of(load(writer.path)).files_of(0), TableReader()
    opened: list[str] = []
    original = Footers.open
    monkeypatch.setattr(
        Footers,
        "open",
        lambda self, path: (opened.append(path), original(self, path))[1],
    )
    assert table.find_timestamp(writer.path, files, FIRST_MS + 700) == (
        (700, FIRST_MS + 700)
    )
    assert len(opened) == 2  # for the plan, and for the chunk


def test_plans_are_kept_by_their_pieces(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(4):
        writer.add(0, n * 1000, n * 1000 + 1000)  # ten row groups
    files, table = OffsetIndex.of(load(writer.path)).files_of(0), TableReader()
    monkeypatch.setattr(reader, "PIECES_KEPT", 25)
    for offset in (0, 1000, 2000, 3000, 0):
        table.find(writer.path, files, offset)
        assert 1 <= len(table._plans) <= 2
    assert table.find(writer.path, files, 3500) is not None


def test_two_unsorted_row_groups_then_a_sorted_file(writer: Writer) -> None:
    """A window must not reach over the end of what it was planned for."""
    writer.add(0, 0, 40, order=[*range(20, 40), *range(20)], row_group_rows=30)
    writer.add(0, 40, 80)
    assert_holds(read_all(writer), list(range(80)))


def test_rows_that_repeat_an_offset_are_served_once(writer: Writer) -> None:
    writer.add(0, 0, 100)
    twin = deltalake.DeltaTable(writer.path).to_pyarrow_table()
    deltalake.write_deltalake(writer.path, twin, mode="append")
    assert_holds(read_all(writer), list(range(100)))


def test_a_vacuumed_file_is_said(writer: Writer) -> None:
    writer.add(0, 0, 100)
    writer.add(0, 100, 200)
    old = OffsetIndex.of(load(writer.path)).files_of(0)
    table = deltalake.DeltaTable(writer.path)
    table.optimize.compact()
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    reader = TableReader()
    with pytest.raises(FileVanished):
        reader.find(writer.path, old, 0)
    assert_holds(read_all(writer), list(range(200)))


def test_a_file_that_vanishes_after_its_footer_was_read(writer: Writer) -> None:
    writer.add(0, 0, 100)
    files = OffsetIndex.of(load(writer.path)).files_of(0)
    reader = TableReader()
    found = reader.find(writer.path, files, 0)
    assert found is not None
    os.unlink(found.chunk.pieces[0].path)
    with pytest.raises(FileVanished):
        reader.read(found.chunk)


def test_the_first_row_at_a_timestamp(writer: Writer) -> None:
    writer.add(0, 0, 250, missing=[120])
    writer.add(0, 250, 300, order=[*range(275, 300), *range(250, 275)])
    reader, files = TableReader(), OffsetIndex.of(load(writer.path)).files_of(0)

    def find(after_ms: int, start: int = 0) -> tuple[int, int] | None:
        return reader.find_timestamp(writer.path, files, FIRST_MS + after_ms, start)

    assert find(-5) == (0, FIRST_MS)
    assert find(119) == (119, FIRST_MS + 119)
    assert find(120) == (121, FIRST_MS + 121)
    assert find(260) == (260, FIRST_MS + 260)
    assert find(10, start=200) == (200, FIRST_MS + 200)
    assert find(300) is None


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(1, 40), st.integers(1, 30), st.booleans(), st.integers(0, 3)
        ),
        min_size=1,
        max_size=5,
    ),
    st.integers(0, 2**32),
)
def test_any_layout_reads_as_the_sorted_rows(
    tmp_path_factory: pytest.TempPathFactory,
    files: list[tuple[int, int, bool, int]],
    seed: int,
) -> None:
    """Files of any size, row group size, order and gaps, against sorting it all."""
    dice = random.Random(seed)
    writer = Writer(str(tmp_path_factory.mktemp("w")))
    whole, small = chunks.WHOLE_ROWS_MAX, 8
    first, present = 0, []
    for count, group_rows, shuffled, gaps in files:
        end = first + count
        missing = dice.sample(range(first, end), min(gaps, count))
        order = list(range(first, end))
        if shuffled:
            cut = dice.randrange(count)
            order = order[cut:] + order[:cut]
        writer.add(0, first, end, missing=missing, order=order,
                   row_group_rows=group_rows)  # fmt: skip
        present += sorted(set(order) - set(missing))
        first = end
    try:
        chunks.WHOLE_ROWS_MAX = small
        start = dice.randrange(first + 1)
        got = read_all(writer, offset=start).to_pylist()
    finally:
        chunks.WHOLE_ROWS_MAX = whole
    wanted = rows(0, present).select(READ).to_pylist()
    assert [r for r in got if r["offset"] >= start] == (
        [r for r in wanted if r["offset"] >= start]
    )


def test_headers_beyond_all_measure_are_refused_and_others_read(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer.add(0, 0, 100)
    files, table = OffsetIndex.of(load(writer.path)).files_of(0), TableReader()
    found = table.find(writer.path, files, 0)
    assert found is not None
    assert len(table.read(found.chunk)) == 100
    # 50 rows have three headers each: two more values than rows in two columns
    monkeypatch.setattr(reader, "HEADERS_BYTES_MAX", 32 * 2 * 100 - 1)
    with pytest.raises(TableUnreadable, match="headers"):
        table.read(found.chunk)
    assert table.find_timestamp(writer.path, files, FIRST_MS + 7) == (7, FIRST_MS + 7)


def paths_of(writer: Writer) -> list[str]:
    files = load(writer.path).files.values()
    return [file.path for file in sorted(files, key=lambda file: file.first_offset)]


def test_rows_that_a_deletion_vector_names_are_gaps(writer: Writer) -> None:
    writer.add(0, 0, 250)
    writer.add(0, 250, 300)
    first, second = paths_of(writer)
    delete_rows(writer, {first: [0, 99, 100, 249], second: range(50)})
    wanted = [offset for offset in range(250) if offset not in (0, 99, 100, 249)]
    assert_holds(read_all(writer), wanted)
    delete_rows(writer, {first: [*range(150), 249]})
    assert_holds(read_all(writer), list(range(150, 249)))
    assert not has_rows(writer.path, load(writer.path).files.values(), 0, (100, 150))
    assert has_rows(writer.path, load(writer.path).files.values(), 0, (100, 151))


OURS: list[Row] = [(n, n, 0, b"k", os.urandom(200)) for n in range(100)]


def chunk_of_ours(tmp_path: Path, vector: Vector | None = None) -> Chunk:
    """100 rows in a file of our own form."""
    write_like_ours(tmp_path / "f.parquet", table_of(OURS))
    [chunk] = chunks.plan((Source(str(tmp_path / "f.parquet"), vector),), Footers())
    return chunk


def test_rows_in_our_form_are_places_as_well(tmp_path: Path) -> None:
    chunk, reader = chunk_of_ours(tmp_path), TableReader()
    assert reader.read_places(chunk, taken, rows_of) == [OURS]
    assert reader.read_places(chunk, taken, rows_of, end_offset=100) == [OURS]
    assert reader.read_places(chunk, taken, rows_of, end_offset=99) is None
    assert reader.read_places(chunk._replace(is_whole=False), taken, rows_of) is None


def test_deleted_rows_have_no_place(tmp_path: Path) -> None:
    reader = TableReader()
    for numbers in ([7], [200]):
        chunk = chunk_of_ours(tmp_path, inline(numbers))
        found = reader.read_places(chunk, taken, rows_of)
        assert found == (None if numbers == [7] else [OURS])


def test_a_damaged_page_is_left_to_arrow_which_tells(tmp_path: Path) -> None:
    chunk, path = chunk_of_ours(tmp_path), tmp_path / "f.parquet"
    assert TableReader().read_places(chunk, taken, rows_of) == [OURS]
    data = bytearray(path.read_bytes())
    data[data.index(OURS[7][4] or b"") + 2] ^= 1
    path.write_bytes(data)
    assert TableReader().read_places(chunk, taken, rows_of) is None
    with pytest.raises(TableUnreadable):
        TableReader().read(chunk)


def test_a_file_that_is_gone_has_no_places_and_that_is_told(tmp_path: Path) -> None:
    chunk, reader = chunk_of_ours(tmp_path), TableReader()
    assert reader.read_places(chunk, taken, rows_of) == [OURS]
    (tmp_path / "f.parquet").unlink()
    with pytest.raises(FileVanished):
        reader.read_places(chunk, taken, rows_of)


def test_one_reader_serves_each_version_its_own_rows(writer: Writer) -> None:
    """Plans and slabs are kept, and are of a file with its vector."""
    order = [*range(60), *range(40, 100)][::-1]
    writer.add(0, 0, 100, order=list(dict.fromkeys(order)))
    [path] = paths_of(writer)
    versions = [OffsetIndex.of(load(writer.path)).files_of(0)]
    for numbers in ([5], [5, 6], [5, 6, 99]):
        delete_rows(writer, {path: numbers})
        versions.append(OffsetIndex.of(load(writer.path)).files_of(0))
    one, found = TableReader(), []
    for files in versions:
        chunk = one.find(writer.path, files, 0)
        assert chunk is not None
        found.append(one.read(chunk.chunk).num_rows)
    assert found == [100, 99, 98, 97]


@pytest.mark.parametrize("overlap", [False, True])
def test_an_update_by_deletion_vector_is_read_once(
    writer: Writer, overlap: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old row stays in its file, and the new one is in a file of its own."""
    if overlap:
        monkeypatch.setattr(chunks, "WHOLE_ROWS_MAX", 10)
    writer.add(0, 0, 100)
    [path] = paths_of(writer)
    delete_rows(writer, {path: [7, 50]})
    renewed = rows(0, [7, 50])
    theirs = pa.array([b"new", b"new"], pa.binary())
    at = renewed.schema.get_field_index("value")
    file = write_file(writer.path, "theirs", renewed.set_column(at, "value", theirs))
    append_theirs(writer, file)
    table = read_all(writer)
    assert table["offset"].to_pylist() == list(range(100))
    values = table["value"].to_pylist()
    assert [n for n, value in enumerate(values) if value == b"new"] == [7, 50]


def test_times_are_those_of_rows_that_are_left(writer: Writer) -> None:
    writer.add(0, 0, 100)
    writer.add(0, 100, 200)
    first, second = paths_of(writer)
    delete_rows(writer, {first: [*range(10)], second: [*range(100)]})
    files, one = OffsetIndex.of(load(writer.path)).files_of(0), TableReader()
    found = one.find_timestamp(writer.path, files, FIRST_MS + 5)
    assert found == (10, FIRST_MS + 10)
    assert one.find_timestamp(writer.path, files, FIRST_MS + 150) is None
    assert one.max_timestamp(writer.path, files) == (99, FIRST_MS + 99)


def test_the_time_of_what_is_no_record_hides_none(writer: Writer) -> None:
    """An owner's file whose one record has no time, beside a late row without an
    offset: its statistics say of both that they are there, and not of which row."""
    writer.add(0, 0, 100)
    table = rows(0, [0, 0])
    late = (FIRST_MS + 900) * 1000
    for name, values in (("offset", [100, None]), ("timestamp", [None, late])):
        at = table.schema.get_field_index(name)
        column = pa.array(values, pa.int64()).cast(table.schema.field(at).type)
        table = table.set_column(at, name, column)
    deltalake.write_deltalake(writer.path, table, mode="append")
    files, one = OffsetIndex.of(load(writer.path)).files_of(0), TableReader()
    assert [file.is_timed for file in files] == [True, False]
    assert one.max_timestamp(writer.path, files) == (99, FIRST_MS + 99)


def test_a_deletion_vector_that_is_damaged_hides_its_file_alone(
    writer: Writer,
) -> None:
    writer.add(0, 0, 100)
    writer.add(0, 100, 200)
    first, _ = paths_of(writer)
    delete_rows(writer, {first: [1, 2]})
    table = load(writer.path)
    broken = table.files[first].vector
    assert broken is not None
    table.files[first] = table.files[first]._replace(vector=broken._replace(size=9))
    files, one = OffsetIndex.of(table).files_of(0), TableReader()
    found = one.find(writer.path, files, 100)
    assert found is not None
    assert one.read(found.chunk).num_rows == 100
    hidden = one.find(writer.path, files, 0)
    assert hidden is not None
    with pytest.raises(TableUnreadable, match="a deletion vector in the log"):
        one.read(hidden.chunk)
