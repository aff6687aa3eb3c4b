"""What stays of a partition, held against a dictionary of the same rows."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs import space
from jobs.cleaning import latest, rewrite
from jobs.cleaning.plan import Group
from jobs.cleaning.rewrite import Cleaned, CleanTask, clean_files
from jobs.merging import order, room
from jobs.merging.names import mark_of, span_of
from jobs.merging.rewrite import Pause, stop_file
from jobs.rows import Failed
from lakehouse.log.actions import DataFile
from lakehouse.schema import WRITE
from tests.support.tables import rows, write_file

SINCE_MS = 0xABC


class Row(NamedTuple):
    offset: int
    key: bytes | None
    value: bytes | None


def table(found: Sequence[Row]) -> pa.Table:
    plain = rows(0, [row.offset for row in found])
    for name in ("key", "value"):
        column = pa.array([getattr(row, name) for row in found], pa.binary())
        plain = plain.set_column(plain.schema.get_field_index(name), name, column)
    return plain


def group(root: Path, *files: Sequence[Row], **more: Any) -> Group:
    """Files of rounds."""
    found = []
    for part in files:
        first, end = part[0].offset, part[-1].offset + 1
        name = f"{first:020d}-{end:020d}-1-2-3"
        new = write_file(str(root), name, table(part), row_group_rows=7)
        bounds = new.timestamp_min_ms, new.timestamp_max_ms
        found.append(
            DataFile(new.path, 0, new.size, new.rows, first, end - 1, *bounds, 0, None)
        )
    said = {"is_dirty": True, "since_ms": SINCE_MS, "is_expired": False}
    return Group(tuple(found), **{**said, **more})


def task(root: Path, *groups: Group, schema: pa.Schema = WRITE) -> CleanTask:
    end = groups[-1].files[-1].last_offset + 1
    columns = schema.serialize().to_pybytes()
    return CleanTask(str(root), 0, end, groups, "a-b-c", columns, str(root / "spill"))


def done(task: CleanTask) -> Cleaned:
    found = clean_files(task)
    assert isinstance(found, Cleaned), found
    assert os.listdir(task.spill) == []
    return found


def left(task: CleanTask, found: Cleaned) -> pa.Table:
    parts = [
        pq.read_table(os.path.join(task.root, file.path), partitioning=None)
        for file in found.files
    ]
    for part, file in zip(parts, found.files, strict=True):
        offsets = part["offset"].to_pylist()
        assert (file.rows, file.first_offset, file.last_offset) == (
            len(offsets), offsets[0], offsets[-1],
        )  # fmt: skip
    return pa.concat_tables(parts)


def stay(found: Sequence[Row], head: int, *, is_expired: bool) -> list[Row]:
    """Naively: of ``found`` the first ``head`` rows were clean."""
    last = {row.key: row.offset for row in found[head:]}
    return [
        row
        for at, row in enumerate(found)
        if row == found[-1]
        or (
            row.key is not None
            and last.get(row.key, -1) <= row.offset
            and not (is_expired and at < head and row.value is None)
        )
    ]


ROWS = st.lists(
    st.tuples(
        st.integers(1, 3),
        st.sampled_from([None, b"", b"a", b"b", b"c", b"ab", b"\0" * 9]),
        st.sampled_from([None, b"", b"v"]),
    ),
    min_size=1,
    max_size=40,
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ROWS, st.integers(0, 40), st.integers(1, 9), st.booleans(), st.booleans())
def test_the_last_row_of_each_key_stays_as_it_was(
    tmp_path_factory: pytest.TempPathFactory,
    drawn: list[tuple[int, bytes | None, bytes | None]],
    head: int,
    each: int,
    is_expired: bool,
    is_small: bool,
) -> None:
    root, offset, found = tmp_path_factory.mktemp("clean"), -1, list[Row]()
    for step, key, value in drawn:
        offset += step
        found.append(Row(offset, key, value))
    head = min(head, len(found) - 1)
    files = [
        [part[at : at + each] for at in range(0, len(part), each)]
        for part in (found[:head], found[head:])
    ]
    dirty = group(root, *files[1])
    clean = group(root, *files[0], is_dirty=False, is_expired=is_expired, since_ms=0)
    asked = task(root, *([clean] if files[0] else []), dirty)
    with pytest.MonkeyPatch.context() as patch:
        if is_small:  # one key a share
            patch.setattr(latest, "SLOTS_MIN", 2)
            patch.setattr(latest.Latest.__init__, "__defaults__", (2 * 24,))
        cleaned = done(asked)
    wanted = stay(found, head, is_expired=is_expired)
    assert left(asked, cleaned) == table(wanted)
    assert cleaned.rows == len(found)
    assert cleaned.keys == len({row.key for row in found[head:]} - {None})


def of(first: int, keys: str, value: bytes | None = b"v") -> list[Row]:
    """A row of each key."""
    return [Row(first + at, key.encode(), value) for at, key in enumerate(keys)]


def test_each_group_becomes_a_file_that_says_what_is_known_of_it(
    tmp_path: Path,
) -> None:
    head = group(tmp_path, of(0, "abc"), of(3, "def"), is_dirty=False, since_ms=7)
    asked = task(tmp_path, head, group(tmp_path, of(6, "ax"), of(8, "x", None)))
    one, other = done(asked).files
    assert (span_of(one.path), span_of(other.path)) == ((0, 0, 6), (0, 6, 9))
    assert mark_of(one.path) == (9, 0), "it has no tombstones"
    assert mark_of(other.path) == (9, SINCE_MS)
    assert (one.rows, other.rows) == (5, 2)
    assert set(os.listdir(tmp_path / "partition=0")) >= {
        os.path.basename(file.path) for file in (one, other)
    }


def test_no_file_has_its_place_before_all_are_written_and_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A VACUUM takes what it saw for longer than `AHEAD_MS` before the commit."""
    head = group(tmp_path, of(0, "abc"), is_dirty=False)
    asked = task(tmp_path, head, group(tmp_path, of(3, "ax")))
    before = set((tmp_path / "partition=0").iterdir())
    seen = set[Path]()

    def look(_: str) -> None:
        seen.update((tmp_path / "partition=0").iterdir())

    monkeypatch.setattr(rewrite, "passing", look)
    assert len(done(asked).files) == 2
    assert seen == before


def test_where_nothing_stays_the_next_file_stands_for_it_too(tmp_path: Path) -> None:
    groups = [
        group(tmp_path, of(first, "ab"), is_dirty=first > 0) for first in (0, 2, 4)
    ]
    asked = task(tmp_path, *groups)
    [only] = done(asked).files
    assert (span_of(only.path), only.rows) == ((0, 0, 6), 2)


def test_keys_that_do_not_fit_are_looked_at_in_shares(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(latest.Latest.__init__, "__defaults__", (1,))
    count = 4 * latest.SLOTS_MIN
    found = [Row(at, b"%d" % (at % (count // 2)), b"v") for at in range(count)]
    asked = task(tmp_path, group(tmp_path, found))
    cleaned = done(asked)
    assert cleaned.keys == count // 2
    assert left(asked, cleaned) == table(found[count // 2 :])


def test_files_in_no_order_are_sorted_on_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(order, "RUN_BYTES", 4_000)
    found = [Row(at, b"%d" % (at % 150), b"v%d" % at) for at in range(600)]
    mixed = [*found[0:300:2], *found[599:299:-1]], [*found[299::-2]]
    whole = group(tmp_path, found)  # for its name and bounds
    one, other = (
        write_file(str(tmp_path), name, table(part))
        for name, part in zip("xy", mixed, strict=True)
    )
    files = tuple(
        whole.files[0]._replace(path=new.path, rows=new.rows) for new in (one, other)
    )
    asked = task(tmp_path, whole._replace(files=files))
    assert left(asked, done(asked)) == table(found[450:])


def refused(task: CleanTask) -> Failed:
    before = set(Path(task.root).glob("partition=*/*"))
    failed = clean_files(task)
    assert isinstance(failed, Failed)
    assert set(Path(task.root).glob("partition=*/*")) == before
    return failed


def test_rows_that_the_log_does_not_know_of_are_not_moved(tmp_path: Path) -> None:
    asked = task(tmp_path, group(tmp_path, of(0, "aba")))
    for rows_said in (2, 4):
        [said] = asked.groups
        files = (said.files[0]._replace(rows=rows_said),)
        failed = refused(asked._replace(groups=(said._replace(files=files),)))
        assert "rows" in failed.why


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_row_that_is_lost_on_the_way_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: int
) -> None:
    """In one of the three readings: keys of dirty rows, keys of all, rows."""
    whole, readings = order.in_order, list[int]()

    def losing(*arguments: Any) -> Any:
        tables = list(whole(*arguments))
        if len(readings) == lost:
            tables[0] = tables[0].slice(1)
        readings.append(len(tables))
        return iter(tables)

    monkeypatch.setattr(order, "in_order", losing)
    assert not refused(task(tmp_path, group(tmp_path, of(0, "abcb")))).stale
    assert len(readings) >= lost + 1


def test_an_owners_columns_survive(tmp_path: Path) -> None:
    schema = WRITE.append(pa.field("x", pa.string()))
    asked = task(tmp_path, group(tmp_path, of(0, "aab")), schema=schema)
    theirs = table(of(0, "aab")).append_column("x", pa.array(["1", "2", "3"]))
    pq.write_table(theirs, tmp_path / asked.groups[0].files[0].path)
    assert left(asked, done(asked))["x"].to_pylist() == ["2", "3"]


def test_an_end_is_asked_for_and_a_full_disk_left_to_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = task(tmp_path, group(tmp_path, of(0, "aab")))
    monkeypatch.setattr(room, "ROOM_BYTES", 1 << 62)
    monkeypatch.setattr(space, "SHARE", 1)
    assert "bytes are free" in refused(asked).why
    monkeypatch.undo()
    Path(stop_file(asked.spill)).touch()
    assert refused(asked).stale


class _Counted(Pause):
    """Waits for nothing; ``rows``: how many were said to be read or written."""

    rows: ClassVar[list[int]] = []

    def after(self, rows: int) -> None:
        self.rows.append(rows)


def test_keys_are_read_at_the_pace_of_their_share_of_the_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rewrite, "Pause", _Counted)
    monkeypatch.setattr(_Counted, "rows", [])
    found = [Row(n, os.urandom(100), b"v") for n in range(2000)]
    done(task(tmp_path, group(tmp_path, found)))
    keys, rest = sum(_Counted.rows[:-1]), _Counted.rows[-1]
    assert rest == 2000, "what is written"
    assert 2 * 1000 < keys < 2 * 2000, "keys are most of it, and read twice"
