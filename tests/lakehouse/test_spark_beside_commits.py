"""A real Spark at work just before our entry gets its name: nothing of either is lost.

Spark looks, and then renames its entry over whatever is there; so it is let finish what
it does while ours waits, as a faster writer would.
"""

from collections.abc import Callable
from pathlib import Path

import deltalake
import pytest

from lakehouse import library
from lakehouse.commit import commit_files, remove_files
from lakehouse.delta_log import entry_versions, load, table_ends
from tests.support.spark_reader import SparkReader
from tests.support.tables import TOPIC_ID, Writer, rows, write_file

pytestmark = pytest.mark.spark

ACTS = {
    "DELETE": "DELETE FROM {} WHERE offset = 5",
    "OPTIMIZE": "OPTIMIZE {}",
    "UPDATE": "UPDATE {} SET value = CAST('theirs' AS BINARY) WHERE offset = 6",
    "WRITE": (
        "INSERT INTO {} (partition, offset, timestamp, topic) "
        "VALUES (1, 7, TIMESTAMP'2024-01-01', 'orders')"
    ),
    "ADD COLUMNS": "ALTER TABLE {} ADD COLUMN theirs STRING",
    "SET TBLPROPERTIES": "ALTER TABLE {} SET TBLPROPERTIES ('their.own' = 'x')",
}


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    return Writer(str(tmp_path))


def first_then(act: Callable[[], object]) -> Callable[[], None]:
    left = [act]
    return lambda: left.pop()() and None if left else None


def offsets(spark: SparkReader, name: str) -> list[int]:
    asked = f"SELECT offset FROM {name} WHERE partition = 0 ORDER BY offset"
    return [offset for (offset,) in spark.ask(asked)]


def history(spark: SparkReader, name: str) -> list[tuple[int, str, str]]:
    """Version, operation and engine, the oldest first."""
    found = spark.ask(f"DESCRIBE HISTORY {name}")
    return sorted((row[0], row[4], row[14]) for row in found)


def test_sparks_commits_and_ours_stand_beside_each_other(
    writer: Writer, analyst: SparkReader
) -> None:
    name, spark = f"delta.`{writer.path}`", analyst
    writer.add(0, 0, 10)
    writer.add(0, 10, 20)
    snapshot = load(writer.path)
    for round_number, (operation, sql) in enumerate(ACTS.items(), 3):
        span = (round_number * 10 - 10, round_number * 10)
        file = write_file(writer.path, f"f{round_number}", rows(0, range(*span)))
        statement = sql.format(name)
        done = commit_files(
            writer.path, TOPIC_ID, round_number, {0: span}, [file],
            snapshot=snapshot, on_written=first_then(lambda s=statement: spark.ask(s)),
        )  # fmt: skip
        assert (operation, table_ends(snapshot)) == (operation, {0: span[1]})
        assert done.version == snapshot.version
    wanted = [offset for offset in range(20 + len(ACTS) * 10) if offset != 5]
    assert offsets(spark, name) == wanted
    table = deltalake.DeltaTable(writer.path).to_pyarrow_table()
    found = zip(
        table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True
    )
    assert sorted(offset for p, offset in found if p == 0) == wanted
    versions = entry_versions(writer.path)
    said = history(spark, name)
    assert [version for version, _, _ in said] == versions
    assert versions == list(range(len(versions)))
    assert sum(engine == "Lakelog" for _, _, engine in said) == 2 + len(ACTS)
    theirs = [operation for _, operation, engine in said[1:] if engine != "Lakelog"]
    assert theirs == list(ACTS)


def test_spark_reads_our_entries_behind_a_checkpoint_and_what_left(
    writer: Writer, analyst: SparkReader
) -> None:
    name = f"delta.`{writer.path}`"
    for n in range(4):
        writer.add(0, n * 10, n * 10 + 10)
    library.checkpoint(writer.path, 3)
    old = min(load(writer.path).files.values(), key=lambda file: file.first_offset)
    remove_files(
        writer.path, TOPIC_ID, [(old.path, 0, old.size)],
        now_ms=1_700_000_000_000, log_starts={0: 10},
    )  # fmt: skip
    writer.add(0, 40, 50)
    assert offsets(analyst, name) == list(range(10, 50))
    before = f"{name} VERSION AS OF 4"
    assert offsets(analyst, before) == list(range(40))
    [(metrics, blind)] = {
        (row[12]["numOutputRows"], row[11])
        for row in analyst.ask(f"DESCRIBE HISTORY {name}")
        if row[0] == 6
    }
    assert (metrics, blind) == ("10", True)
