"""An ordinary table: readers that know nothing of us see the same rows."""

import os
from datetime import UTC, datetime
from pathlib import Path

import deltalake
import duckdb
import polars
import pyarrow as pa
import pytest

from lakehouse.schema import WRITE
from tests.support.tables import Writer, rows


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    made = Writer(str(tmp_path), "Web.Clicks")
    for n in range(3):
        made.add(0, n * 100, n * 100 + 100, missing=[n * 100 + 5])
    made.add(1, 10, 40)
    return made


def expected() -> list[dict[str, object]]:
    first = [o for o in range(300) if o not in (5, 105, 205)]
    parts = rows(0, first, "Web.Clicks"), rows(1, list(range(10, 40)), "Web.Clicks")
    return [row for part in parts for row in part.to_pylist()]


def in_order(found: list[dict[str, object]]) -> list[dict[str, object]]:
    return sorted(found, key=lambda row: (row["partition"], row["offset"]))


def test_deltalake(writer: Writer) -> None:
    table = deltalake.DeltaTable(writer.path).to_pyarrow_table()
    assert set(table.column_names) == set(WRITE.names)
    assert in_order(table.select(WRITE.names).to_pylist()) == expected()


def test_deltalake_skips_files_by_their_statistics(writer: Writer) -> None:
    found = (
        deltalake.QueryBuilder()
        .register("t", deltalake.DeltaTable(writer.path))
        .execute(
            "SELECT offset FROM t WHERE partition = 0 AND offset BETWEEN 150 AND 152"
        )
        .read_all()
    )
    assert sorted(found["offset"].to_pylist()) == [150, 151, 152]


@pytest.mark.parametrize("year", [1, 999, 1500])
def test_a_time_of_long_ago_hides_no_later_rows_of_its_file(
    tmp_path: Path, year: int
) -> None:
    mine = rows(0, range(100))
    times = mine.column("timestamp").to_pylist()
    times[7] = datetime(year, 1, 2, tzinfo=UTC)
    kind = WRITE.field("timestamp").type
    at = WRITE.get_field_index("timestamp")
    writer = Writer(str(tmp_path), "t")
    writer.add_like_ours(mine.set_column(at, "timestamp", pa.array(times, kind)))
    since = "timestamp", ">=", min(times[:7])
    table = deltalake.DeltaTable(writer.path).to_pyarrow_table(filters=[since])
    assert table.num_rows == 99


def test_polars(writer: Writer) -> None:
    frame = polars.scan_delta(writer.path).sort("partition", "offset").collect()
    got = frame.select(WRITE.names).rows(named=True)
    assert [(r["partition"], r["offset"], r["key"], r["value"]) for r in got] == [
        (r["partition"], r["offset"], r["key"], r["value"]) for r in expected()
    ]
    assert [r["headers"] for r in got] == [r["headers"] for r in expected()]
    late = polars.scan_delta(writer.path).filter(polars.col("offset") >= 290).collect()
    assert late.height == 10


def test_duckdb_over_the_files_of_the_log(writer: Writer) -> None:
    deltalake.DeltaTable(writer.path).optimize.compact()
    files = deltalake.DeltaTable(writer.path).file_uris()
    found = duckdb.execute(
        'SELECT partition::INT, count(*), min("offset"), max("offset"), '
        "sum(octet_length(value)) FROM read_parquet(?, hive_partitioning=true) "
        "GROUP BY 1 ORDER BY 1",
        [files],
    ).fetchall()
    wanted = []
    for partition in (0, 1):
        mine = [r for r in expected() if r["partition"] == partition]
        offsets = [r["offset"] for r in mine]
        size = sum(len(r["value"] or b"") for r in mine)
        wanted.append((partition, len(mine), min(offsets), max(offsets), size))
    assert found == wanted


def test_the_file_holds_its_partition_too(writer: Writer) -> None:
    uri = deltalake.DeltaTable(writer.path).file_uris()[0]
    table = duckdb.read_parquet(uri, hive_partitioning=False)
    assert table.columns == WRITE.names
    assert os.path.basename(os.path.dirname(uri)).startswith("partition=")
