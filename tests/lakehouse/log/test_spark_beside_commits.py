"""A real Spark at work just before our entry gets its name: nothing of either is lost.

Spark looks, and then renames its entry over whatever is there; so it is let finish what
it does while ours waits, as a faster writer would.
"""

import json
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import deltalake
import pytest

from lakehouse.errors import CommitRefused
from lakehouse.log import commit, library
from lakehouse.log.checkpoint_repair import is_known, prove_checkpoint
from lakehouse.log.commit import commit_files, remove_files
from lakehouse.log.delta_log import entry_path, entry_versions, load, table_ends
from lakehouse.log.proven_checkpoint import make_checkpoint
from lakehouse.tables import repair
from tests.support.compacted_log import compact_log
from tests.support.spark_reader import SparkReader
from tests.support.tables import TOPIC_ID, Writer, rows, write_file

pytestmark = [pytest.mark.spark, pytest.mark.shared_out("beside Spark", 4)]

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


def test_spark_reads_our_entry_where_a_torn_one_had_been_compacted(
    writer: Writer, analyst: SparkReader
) -> None:
    """Which it would not look at where a log compaction of that version is left."""
    writer.add(0, 0, 10)
    writer.add(0, 10, 20)
    deltalake.DeltaTable(writer.path).delete("offset = 3")
    file, checksum = compact_log(writer.path, 2, 3)
    checksum.unlink()
    entry = Path(entry_path(writer.path, 3))
    entry.write_bytes(entry.read_bytes()[:500])
    assert repair(writer.path) is not None
    assert writer.add(0, 20, 30).version == 3
    assert offsets(analyst, f"delta.`{writer.path}`") == list(range(30))
    assert not file.exists()


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


@pytest.mark.parametrize("struct", ["false", "true"])
def test_sparks_checkpoint_tells_what_the_entries_do_and_spark_reads_beside_our_sums(
    writer: Writer, analyst: SparkReader, struct: str
) -> None:
    """It is proven like one of the library's, and stays."""
    name = f"delta.`{writer.path}`"
    for n in range(3):
        writer.add(0, n * 10, n * 10 + 10)
    make_checkpoint(load(writer.path), 3)
    asked = {
        "delta.checkpointInterval": "1",
        "delta.checkpoint.writeStatsAsStruct": struct,
        "delta.checkpoint.writeStatsAsJson": "false" if struct == "true" else "true",
    }
    properties = ", ".join(f"'{key}' = '{value}'" for key, value in asked.items())
    analyst.ask(f"ALTER TABLE {name} SET TBLPROPERTIES ({properties})")
    analyst.ask(f"DELETE FROM {name} WHERE offset < 5")
    found = load(writer.path)
    assert found.checkpoint == found.version
    assert not is_known(found)
    assert prove_checkpoint(found) is None
    assert is_known(load(writer.path))
    assert offsets(analyst, name) == list(range(5, 30))
    assert len(deltalake.DeltaTable(writer.path).to_pyarrow_table()) == 25


def test_commits_of_both_say_when_they_were_made_and_can_be_asked_by_it(
    writer: Writer, analyst: SparkReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In-commit timestamps. Our clock is an hour behind, and Spark's is not."""
    name, past_ms = f"delta.`{writer.path}`", int(time.time() * 1000) - 3_600_000
    monkeypatch.setattr(commit, "_now_ms", lambda: past_ms)
    writer.add(0, 0, 10)
    asked = "'delta.enableInCommitTimestamps' = 'true'"
    analyst.ask(f"ALTER TABLE {name} SET TBLPROPERTIES ({asked})")
    writer.add(0, 10, 20)
    writer.add(0, 20, 30)
    analyst.ask(f"DELETE FROM {name} WHERE offset = 5")
    old = max(load(writer.path).files.values(), key=lambda file: file.first_offset)
    remove_files(
        writer.path, TOPIC_ID, [(old.path, 0, old.size)],
        now_ms=past_ms, log_starts={0: 10},
    )  # fmt: skip
    make_checkpoint(load(writer.path), 6)
    writer.add(0, 30, 40)
    analyst.ask(f"OPTIMIZE {name}")
    wanted = [*range(5), *range(6, 20), *range(30, 40)]
    assert offsets(analyst, name) == wanted
    found = analyst.ask(f"DESCRIBE HISTORY {name}")
    times = [row[1] for row in sorted(found)]
    assert len(times) == 9
    assert times[2:] == sorted(set(times[2:]))
    made = datetime.fromtimestamp(times[4] / 1000, UTC).isoformat(" ", "milliseconds")
    assert offsets(analyst, f"{name} TIMESTAMP AS OF '{made}'") == list(range(30))


def test_rows_are_numbered_again_once_row_tracking_is_no_longer_suspended(
    writer: Writer, analyst: SparkReader
) -> None:
    name = f"delta.`{writer.path}`"
    turned = (
        f"ALTER TABLE {name} SET TBLPROPERTIES "
        "('delta.enableRowTracking' = '{}', 'delta.rowTrackingSuspended' = '{}')"
    )
    numbered = f"SELECT count(*), count(DISTINCT _metadata.row_id) FROM {name}"
    writer.add(0, 0, 10)
    writer.add(0, 10, 20)
    analyst.ask(turned.format("true", "false"))
    file = write_file(writer.path, "third", rows(0, range(20, 30)))
    with pytest.raises(CommitRefused, match=r"not numbered here.*RowTracking"):
        commit_files(writer.path, TOPIC_ID, 3, {0: (20, 30)}, [file])
    analyst.ask(turned.format("false", "true"))
    commit_files(writer.path, TOPIC_ID, 3, {0: (20, 30)}, [file])
    old = min(load(writer.path).files.values(), key=lambda file: file.first_offset)
    remove_files(
        writer.path, TOPIC_ID, [(old.path, 0, old.size)],
        now_ms=1_700_000_000_000, log_starts={0: 10},
    )  # fmt: skip
    make_checkpoint(load(writer.path), load(writer.path).version)
    for on in ("false", "true"):  # first it is no longer suspended
        analyst.ask(turned.format(on, "false"))
    assert offsets(analyst, name) == list(range(10, 30))
    assert analyst.ask(numbered) == [[20, 20]]


def test_spark_keeps_what_left_by_a_checkpoint_of_ours(
    writer: Writer, analyst: SparkReader
) -> None:
    """The library would have left it out: it takes such words for a week."""
    for n in range(2):
        writer.add(0, n * 10, n * 10 + 10)
    table, now_s = load(writer.path), time.time()
    assert table.metadata is not None
    said = {**table.configuration, "delta.deletedFileRetentionDuration": "60 days"}
    gone = {"path": min(table.files), "dataChange": True,
            "deletionTimestamp": int(now_s - 10 * 86_400) * 1000}  # fmt: skip
    body = table.metadata.body | {"configuration": said}
    Path(entry_path(writer.path, 3)).write_text(
        json.dumps({"metaData": body}) + "\n" + json.dumps({"remove": gone})
    )
    place = Path(writer.path) / min(table.files)
    os.utime(place, (now_s - 100 * 86_400,) * 2)
    make_checkpoint(load(writer.path), 3)
    for version in range(3):
        os.unlink(entry_path(writer.path, version))
    name = f"delta.`{writer.path}`"
    assert offsets(analyst, name) == list(range(10, 20))
    analyst.ask(f"VACUUM {name} RETAIN {60 * 24} HOURS")
    assert place.exists()
