"""An expression of Spark's SQL is asked of every file, wherever it lies."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.erasing.expression import DEPENDS, by_expression
from jobs.erasing.partitions import CHANGES, by_directory
from jobs.erasing.search import Found, data_files
from jobs.erasing.table import NotErased
from jobs.session import end_session, make_session
from lakehouse.log.actions import NO_PARTITION
from lakehouse.log.delta_log import load
from tests.support.tables import Writer

pytestmark = pytest.mark.spark
NOW = "current_timestamp"


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    made = make_session("local[1]", "test")
    yield made
    end_session(made)


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    made = Writer(str(tmp_path))
    made.add(0, 0, 20)
    made.add(1, 0, 20)
    made.add(0, 20, 40)
    return made


def of_partition_1(writer: Writer) -> str:
    [one] = [p for p in data_files(writer.path).files if by_directory(p) == 1]
    return one


def copied(writer: Writer, path: str, to: str) -> str:
    """As Spark writes it: without the partition."""
    place = Path(writer.path, to)
    place.parent.mkdir(parents=True, exist_ok=True)
    rows = pq.read_table(os.path.join(writer.path, path), partitioning=None)
    pq.write_table(rows.drop_columns(["partition"]), place)
    return to


def found_by(
    session: Any, writer: Writer, expression: str, **more: int | None
) -> Found:
    search = by_expression(session, load(writer.path), expression)
    files = data_files(writer.path).files
    known = {path: by_directory(path) for path in files}
    return search(writer.path, known | more)


def offsets(found: Found) -> dict[str, list[int]]:
    return {path: some.tolist() for path, some in found.offsets.items()}


def test_it_is_spark_s_on_the_columns_of_the_table(
    session: Any, writer: Writer
) -> None:
    one = of_partition_1(writer)
    feed = copied(writer, one, f"{CHANGES}/partition=1/cdc-1.parquet")
    wanted = "partition = 1 AND cast(key AS string) IN ('key-7', 'key-8')"
    found = found_by(session, writer, wanted)
    assert offsets(found) == {one: [7, 8], feed: [7, 8]}
    assert (found.nameless, found.unreadable) == ({}, {})


def test_it_passes_over_no_file_for_its_name(session: Any, writer: Writer) -> None:
    """Spark reads none whose name begins so, and takes names for patterns."""
    one = of_partition_1(writer)
    begun = f".in_flight/.{one.replace('/', '-')}"
    hidden = [begun, "partition=1/_a.parquet", "partition=1/.a.parquet"]
    odd = ["partition=1/a[1].parquet", "partition=1/{a,b}.parquet"]
    for name in (*hidden, *odd):
        place = Path(writer.path, name)
        place.parent.mkdir(exist_ok=True)
        os.link(os.path.join(writer.path, one), place)
    found = found_by(session, writer, "offset IN (7, 8) AND partition = 1")
    assert offsets(found) == {name: [7, 8] for name in (one, *odd)}
    assert found.unreadable.keys() == set(hidden)


def test_files_lie_in_directories_of_any_form(session: Any, writer: Writer) -> None:
    """As where Delta places them, and where an owner keeps older ones."""
    one = of_partition_1(writer)
    placed = copied(writer, one, "xY/part-1.parquet")
    kept = copied(writer, one, "_old/partition=0/a.parquet")
    deep = copied(writer, one, "partition=1/partition=7/a.parquet")
    bare = copied(writer, one, "20261128_101010_00009_8t2sc_f3b5")
    known = {placed: 1, kept: None, bare: NO_PARTITION}
    found = found_by(session, writer, "offset = 7 AND partition = 1", **known)
    assert offsets(found) == {one: [7], placed: [7], kept: [7], deep: [7]}
    assert found.unreadable == {kept: DEPENDS}
    found = found_by(session, writer, "offset = 7 AND partition IS NULL", **known)
    assert offsets(found) == {kept: [7], bare: [7]}
    found = found_by(session, writer, "cast(key AS string) = 'key-7'", **known)
    assert found.offsets.keys() > {one, placed, kept, deep, bare}
    assert found.unreadable == {}


def test_a_partition_may_be_any_number(session: Any, writer: Writer) -> None:
    one = of_partition_1(writer)
    many = {
        copied(writer, one, f"partition={number}/a.parquet"): number
        for number in (-1, -(1 << 31), 12_345_678_901)
    }
    for path, number in many.items():
        found = found_by(session, writer, f"partition = {number}", **many)
        assert found.offsets.keys() == {path}
    assert not found_by(session, writer, "partition IS NULL", **many).offsets


@pytest.mark.parametrize(
    "expression",
    [
        "rand() < 0.5 AND offset = 1",
        "timestamp < TIMESTAMP 'now'",
        "timestamp < CAST('now' AS TIMESTAMP)",
        "offset IN (7, 8) AND uuid() = 'a'",
    ],
)
def test_what_is_another_each_time_is_refused_before_it_is_looked_for(
    session: Any, writer: Writer, expression: str
) -> None:
    with pytest.raises(NotErased, match="changes while it is looked for: write a time"):
        by_expression(session, load(writer.path), expression)


@pytest.mark.parametrize(
    "expression",
    [
        "exists(headers, h -> h.key = 'trace') AND offset = 7 OR offset = 8",
        "offset IN (SELECT 8)",
        "CAST(key AS STRING) RLIKE 'key-8$' AND current_user() IS NOT NULL",
        "offset = (SELECT 8 WHERE current_date() > DATE '2000-01-01')",
    ],
)
def test_what_is_the_same_each_time_is_looked_for(
    session: Any, writer: Writer, expression: str
) -> None:
    found = offsets(found_by(session, writer, expression))
    assert {tuple(some) for some in found.values()} == {(8,)}


def test_the_time_of_asking_is_that_of_all_looks(session: Any, writer: Writer) -> None:
    table = load(writer.path)
    seconds = "unix_micros(current_timestamp()) % 1000000000"
    search = by_expression(session, table, f"offset = {seconds} % 20")
    before = f"timestamp < now() AND current_date() = CAST({NOW} AS DATE)"
    files = {path: by_directory(path) for path in data_files(writer.path).files}
    looks = [offsets(search(writer.path, files)) for _ in range(3)]
    assert looks[0] == looks[1] == looks[2] != {}
    found = by_expression(session, table, before)(writer.path, files)
    assert found.offsets.keys() == files.keys()


def test_a_row_without_an_offset_is_found_by_its_number(
    session: Any, writer: Writer
) -> None:
    one = of_partition_1(writer)
    odd = os.path.join("partition=1", "odd.parquet")
    rows = pq.read_table(os.path.join(writer.path, one), partitioning=None).slice(6, 3)
    at = rows.schema.get_field_index("offset")
    some = pa.array([6, None, 8], pa.int64())
    pq.write_table(rows.set_column(at, "offset", some), os.path.join(writer.path, odd))
    found = found_by(session, writer, "cast(key AS string) IN ('key-7', 'key-8')")
    assert offsets(found)[odd] == [8]
    assert {path: rows.tolist() for path, rows in found.nameless.items()} == {odd: [1]}
