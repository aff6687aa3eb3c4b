"""Deletion vectors as a real Spark writes them: our reader sees what it does."""

from pathlib import Path

import pytest

from lakehouse.files.foreign_rows import has_rows
from lakehouse.files.reader import TableReader
from lakehouse.index import OffsetIndex
from lakehouse.log.checkpoint_repair import is_known
from lakehouse.log.commit import remove_files
from lakehouse.log.delta_log import load
from lakehouse.log.proven_checkpoint import make_checkpoint
from tests.support.spark_reader import SparkReader
from tests.support.tables import TOPIC_ID, Writer

pytestmark = pytest.mark.spark

VECTORS = "ALTER TABLE {} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
NEW = "CAST('new' AS BINARY)"
ROWS, HALF = 24_000, 12_000

Rows = dict[int, bytes | None]


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    return Writer(str(tmp_path))


def as_spark(spark: SparkReader, writer: Writer) -> Rows:
    asked = f"SELECT offset, value FROM delta.`{writer.path}` WHERE partition = 0"
    return dict(map(tuple, spark.ask(asked)))  # type: ignore[arg-type]


def as_reader(one: TableReader, writer: Writer) -> Rows:
    files, found, offset = OffsetIndex.of(load(writer.path)).files_of(0), Rows(), 0
    while (chunk := one.find(writer.path, files, offset)) is not None:
        table = one.read(chunk.chunk)
        pairs = zip(
            table["offset"].to_pylist(), table["value"].to_pylist(), strict=True
        )
        for at, value in pairs:
            assert at not in found
            found[at] = value
        offset = chunk.chunk.last_offset + 1
    return found


def vectors(writer: Writer) -> int:
    return sum(file.vector is not None for file in load(writer.path).files.values())


@pytest.mark.slow
def test_the_reader_and_spark_see_the_same_rows(
    writer: Writer, analyst: SparkReader
) -> None:
    """A few rows are a list, many are bits, and those in a row are runs."""
    name, one = f"delta.`{writer.path}`", TableReader()
    writer.add(0, 0, HALF, row_group_rows=5_000)
    writer.add(0, HALF, ROWS, row_group_rows=HALF)
    analyst.ask(VECTORS.format(name))
    for statement, files in (
        (f"DELETE FROM {name} WHERE offset IN (3, 4999, 5000, {ROWS - 1})", 2),
        (f"DELETE FROM {name} WHERE offset % 2 = 1 AND offset < {HALF}", 2),
        (f"DELETE FROM {name} WHERE offset BETWEEN 13000 AND 22000", 2),
        (f"UPDATE {name} SET value = {NEW} WHERE offset IN (100, {HALF})", 2),
        (
            f"MERGE INTO {name} t USING (SELECT 200L AS o UNION ALL SELECT 202L) s "
            f"ON t.offset = s.o WHEN MATCHED AND s.o = 200 THEN DELETE "
            f"WHEN MATCHED THEN UPDATE SET value = {NEW}",
            2,
        ),
    ):
        analyst.ask(statement)
        assert vectors(writer) == files, statement
        assert as_reader(one, writer) == as_spark(analyst, writer), statement
    seen = as_reader(one, writer)
    assert [at for at, value in seen.items() if value == b"new"] == [100, 202, HALF]
    assert not {3, 4999, 5000, 200, 13_000, 22_000, ROWS - 1} & seen.keys()
    assert len(seen) == HALF // 2 - 2 + HALF - 9_001 - 1
    table = load(writer.path)
    assert not has_rows(writer.path, table.files.values(), 0, (13_000, 22_001))
    make_checkpoint(table, table.version)
    assert is_known(load(writer.path))
    assert load(writer.path).files == table.files
    assert as_reader(TableReader(), writer) == seen == as_spark(analyst, writer)
    analyst.ask(f"OPTIMIZE {name}")
    analyst.ask(f"REORG TABLE {name} APPLY (PURGE)")
    assert vectors(writer) == 0
    assert as_reader(one, writer) == seen


def test_what_has_a_vector_leaves_with_it_and_records_come(
    writer: Writer, analyst: SparkReader
) -> None:
    """Spark knows a file by its path and its vector."""
    name = f"delta.`{writer.path}`"
    writer.add(0, 0, 10)
    writer.add(0, 10, 20)
    analyst.ask(VECTORS.format(name))
    analyst.ask(f"DELETE FROM {name} WHERE offset IN (3, 13)")
    writer.add(0, 20, 30)
    old = min(load(writer.path).files.values(), key=lambda file: file.first_offset)
    assert (old.vector is None, old.rows) == (False, 9)
    remove_files(
        writer.path, TOPIC_ID, [(old.path, 0, old.size, old.rows)],
        now_ms=1, log_starts={0: 10},
    )  # fmt: skip
    left = [*range(10, 13), *range(14, 30)]
    assert sorted(as_spark(analyst, writer)) == left
    assert sorted(as_reader(TableReader(), writer)) == left
    analyst.ask(f"RESTORE TABLE {name} TO VERSION AS OF 3")
    assert len(as_spark(analyst, writer)) == 20
    assert sorted(as_reader(TableReader(), writer)) == [*range(20)]
