"""History says what our commits did, to Delta's own readers."""

import json
from pathlib import Path

import deltalake
import pytest

from lakehouse.log.commit import remove_files
from lakehouse.log.delta_log import entry_path, load
from lakehouse.log.provenance import COMPACT, RETENTION, is_ours, provenance
from lakehouse.properties import LOG_START, RANGES, ROWS
from tests.support.spark_reader import SparkReader
from tests.support.tables import TOPIC_ID, Writer


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    return Writer(str(tmp_path))


def retain(writer: Writer, start: int) -> None:
    """Let the files below ``start`` of partition 0 leave, as retention does."""
    files = load(writer.path).files.values()
    gone = [
        (file.path, 0, file.size, file.rows)
        for file in files
        if file.partition == 0 and file.last_offset < start
    ]
    remove_files(writer.path, TOPIC_ID, gone, now_ms=1, log_starts={0: start})


def grown(writer: Writer) -> None:
    """Versions 1 and 2 bring offsets 0 to 1,999 of partition 0, 3 some of partition 1,
    4 lets the first thousand go."""
    writer.add(0, 0, 1_000)
    writer.add(0, 1_000, 2_000)
    writer.add(1, 0, 5)
    retain(writer, 1_000)


def test_people_are_shown_the_offsets_and_what_was_there_stays() -> None:
    said = {RANGES: {"3": [10, 20]}, ROWS: {"3": 9}}
    found = provenance(COMPACT, {"numFiles": 2}, said)
    assert found == said | {
        "operationMetrics": {"numFiles": "2"},
        "userMetadata": '{"operation":"LAKELOG COMPACT","ranges":{"3":[10,20]}}',
    }
    gone = provenance(RETENTION, {}, {LOG_START: {"0": 7}})
    assert json.loads(gone["userMetadata"]) == {
        "operation": RETENTION, "logStart": {"0": 7},
    }  # fmt: skip


def test_the_library_tells_which_version_brought_an_offset(writer: Writer) -> None:
    grown(writer)
    said = deltalake.DeltaTable(writer.path).history()
    told = {one["version"]: json.loads(one.get("userMetadata", "{}")) for one in said}
    assert [one["operation"] for one in reversed(said)][1:] == [
        COMPACT, COMPACT, COMPACT, RETENTION,
    ]  # fmt: skip
    holds = [
        version
        for version, metadata in told.items()
        for low, end in [metadata.get("ranges", {}).get("0", (0, 0))]
        if low <= 1_000 < end
    ]
    assert holds == [2]
    assert told[4]["logStart"] == {"0": 1_000}


def test_a_table_that_the_library_commits_to_tells_it_too(writer: Writer) -> None:
    owner = deltalake.DeltaTable(writer.path)
    owner.alter.set_table_properties({"delta.enableChangeDataFeed": "true"})
    writer.add(0, 0, 10)
    [said] = deltalake.DeltaTable(writer.path).history(1)
    assert said["operation"] == "WRITE"  # the library gives its own names
    assert said["operationMetrics"]["numOutputRows"] == "10"
    assert json.loads(said["userMetadata"]) == {
        "operation": COMPACT, "ranges": {"0": [0, 10]},
    }  # fmt: skip


@pytest.mark.spark
def test_spark_tells_which_version_brought_an_offset_and_which_let_rows_go(
    writer: Writer, analyst: SparkReader
) -> None:
    grown(writer)
    said = analyst.ask(f"DESCRIBE HISTORY delta.`{writer.path}`")
    rows = {row[0]: row for row in said}
    assert {version: row[4] for version, row in rows.items() if version} == {
        1: COMPACT, 2: COMPACT, 3: COMPACT, 4: RETENTION,
    }  # fmt: skip
    assert rows[2][12]["numOutputRows"] == "1000"
    assert (rows[4][12]["numDeletedRows"], rows[4][12]["numRemovedFiles"]) == (
        "1000", "1",
    )  # fmt: skip
    table = ", ".join(f"({row[0]}, '{row[13] or '{}'}')" for row in said)
    found = analyst.ask(
        f"""SELECT version FROM VALUES {table} AS history(version, userMetadata)
        WHERE get_json_object(userMetadata, '$.ranges.0[0]') <= 1000
        AND get_json_object(userMetadata, '$.ranges.0[1]') > 1000"""
    )
    assert found == [[2]]
    left = "SELECT count(*), min(offset) FROM delta.`{}`{} WHERE partition = 0"
    assert analyst.ask(left.format(writer.path, "")) == [[1_000, 1_000]]
    assert analyst.ask(left.format(writer.path, " VERSION AS OF 2")) == [[2_000, 0]]


def test_entries_of_ours_are_told_from_an_owners(writer: Writer) -> None:
    grown(writer)
    table = deltalake.DeltaTable(writer.path)
    table.alter.set_table_properties({"delta.enableChangeDataFeed": "true"})
    writer.add(0, 2_000, 2_001)  # the library commits it now
    table.update_incremental()
    table.delete("offset = 1500")
    said = [
        is_ours(Path(entry_path(writer.path, version)).read_text())
        for version in range(8)
    ]
    assert said == [False, True, True, True, True, False, True, False]
