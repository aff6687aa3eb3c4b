"""Offsets that are in a table twice are found, and never many are held at once."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs import check_files
from jobs.check_files import Span, check_file, doubled
from jobs.check_report import Report
from lakehouse.errors import TableUnreadable
from lakehouse.log.actions import DataFile, data_file
from lakehouse.log.library import _add
from lakehouse.schema import READ
from tests.support.bitmaps import inline
from tests.support.tables import FIRST_MS, rows, write_file

Offsets = st.lists(st.integers(-50, 200), min_size=1, max_size=40)


def span_of(root: Path, name: str, offsets: list[int], row_group: int = 7) -> Span:
    file = write_file(str(root), name, rows(0, offsets), row_group)
    add = _add(file)
    described = data_file(
        {
            "path": add.path, "size": add.size, "stats": add.stats,
            "partitionValues": add.partition_values,
        }
    )  # fmt: skip
    report = Report()
    span = check_file(str(root), described, name, report)
    assert span is not None
    assert (report.problems, report.counts) == ([], {"rows": len(offsets)})
    return span


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(files=st.lists(Offsets, min_size=1, max_size=5), at_once=st.integers(1, 60))
def test_each_row_that_repeats_an_offset_is_found_whatever_is_held_at_once(
    tmp_path: Path, files: list[list[int]], at_once: int
) -> None:
    spans = [span_of(tmp_path, f"f{n}", one) for n, one in enumerate(files)]
    flat = [offset for one in files for offset in one]
    assert doubled(spans, at_once) == len(flat) - len(set(flat))


def test_what_is_in_order_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spans = [
        span_of(tmp_path, f"f{first}", list(range(first, first + 100)))
        for first in (300, 0, 100)
    ]
    for span in spans:
        Path(span.source.path).unlink()
    assert doubled(spans) == 0
    assert [span.rises for span in spans] == [True] * 3


def test_shares_are_alike_whatever_offsets_were_deleted(tmp_path: Path) -> None:
    for step in (1, 2, 4096):
        offsets = list(range(0, 20_000 * step, step))
        span = span_of(tmp_path, f"f{step}", offsets, 1000)
        sizes = [
            sum(map(len, check_files._offsets(span.source, share, 8)))
            for share in range(8)
        ]
        assert sum(sizes) == 20_000
        assert max(sizes) < 2 * 20_000 / 8


def test_a_file_that_goes_meanwhile_is_left_out(tmp_path: Path) -> None:
    spans = [span_of(tmp_path, name, [3, 2, 1]) for name in ("a", "b")]
    assert doubled(spans) == 3
    Path(spans[0].source.path).unlink()
    assert doubled(spans) == 0


def test_rows_are_held_some_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[int] = []
    original = check_files._span_of

    def watched(path: str, batch: Any) -> Span:
        held.append(batch.num_rows)
        return original(path, batch)

    monkeypatch.setattr(check_files, "_span_of", watched)
    monkeypatch.setattr(check_files, "BATCH_ROWS", 10)
    span = span_of(tmp_path, "f", np.arange(100).tolist(), 100)
    assert (max(held), sum(held), span.rows) == (10, 100, 100)


def test_rows_without_an_offset_are_remarked_and_no_problem(tmp_path: Path) -> None:
    table = rows(0, [*range(90), *range(30, 40)])
    for count in (100, 10):  # all of them, and the last ten
        offsets = [*range(100 - count), *[None] * count]
        column = pa.array(offsets, pa.int64())
        at = table.schema.get_field_index("offset")
        name = f"{count}.parquet"
        pq.write_table(table.set_column(at, "offset", column), tmp_path / name)
        size = (tmp_path / name).stat().st_size
        file = DataFile(
            name, 0, size, 100, 0, 89, FIRST_MS, FIRST_MS + 89, 0,
        )  # fmt: skip
        report = Report()
        span = check_file(str(tmp_path), file, name, report)
        assert report.problems == []
        assert [f"has {count} rows without an offset" in r for r in report.remarks] == [
            True
        ]
        assert report.counts == {"rows": 100}
        assert (span is None) == (count == 100)
        spans = [] if span is None else [span, span]
        assert doubled(spans) == (100 - count) * (count == 10)


def test_rows_that_a_deletion_vector_names_are_not_there(tmp_path: Path) -> None:
    table = rows(0, [*range(100), 5, 7])
    pq.write_table(table, tmp_path / "f", row_group_size=50)
    size = (tmp_path / "f").stat().st_size
    for deleted, again in (([], 2), ([5], 1), ([5, 101], 0), ([7, 60, 100], 0)):
        file = DataFile(
            "f", 0, size, 102 - len(deleted), 0, 99, FIRST_MS, FIRST_MS + 99, 0,
            inline(deleted),
        )  # fmt: skip
        report = Report()
        span = check_file(str(tmp_path), file, "f", report)
        assert span is not None
        assert (span.rows, report.problems) == (102 - len(deleted), [])
        assert doubled([span]) == again


@pytest.mark.parametrize("absent", [1, 40])
def test_rows_without_a_timestamp_are_no_problem(tmp_path: Path, absent: int) -> None:
    table = rows(0, range(40))
    at = table.schema.get_field_index("timestamp")
    times = [*table["timestamp"].to_pylist()[absent:], *[None] * absent]
    column = pa.array(times, table.schema.field(at).type)
    pq.write_table(table.set_column(at, "timestamp", column), tmp_path / "f")
    file = DataFile(
        "f", 0, (tmp_path / "f").stat().st_size, 40, 0, 39, FIRST_MS + absent,
        FIRST_MS + 39, 0,
    )  # fmt: skip
    report = Report()
    span = check_file(str(tmp_path), file, "f", report)
    assert span is not None
    assert (span.rows, report.problems) == (40, [])


@pytest.mark.parametrize("column", READ)
def test_a_file_of_ours_that_the_broker_refuses_is_a_problem(
    tmp_path: Path, column: str
) -> None:
    """For one flipped bit of its footer in eleven, check was content with a file out of
    which nothing is served."""
    name = f"{0:020d}-{200:020d}-138b-1a20acdf693-2"
    file = write_file(str(tmp_path), name, rows(0, range(200)), 100)
    path = tmp_path / file.path
    whole = path.read_bytes()
    footer = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    at = whole.index(bytes([len(column)]) + column.encode(), footer) + len(column)
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
    add = _add(file)
    known = data_file(
        {
            "path": add.path, "size": add.size, "stats": add.stats,
            "partitionValues": add.partition_values,
        }
    )  # fmt: skip
    with pytest.raises(TableUnreadable, match="is damaged"):
        check_file(str(tmp_path), known, name, Report())
