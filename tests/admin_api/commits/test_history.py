"""Commits out of the log: whose they are and what they say."""

import json
import os
from pathlib import Path

import deltalake
import pytest

from admin_api.commits.history import history, render
from lakehouse.log.actions import parse_commit
from lakehouse.log.commit import remove_files
from lakehouse.log.delta_log import entry_path, load
from lakehouse.schema import WRITE
from tests.support.tables import TOPIC_ID, Writer

SCHEMA = deltalake.Schema.from_arrow(WRITE)


@pytest.fixture
def writer(tmp_path):
    return Writer(str(tmp_path))


def all_of(writer):
    return history(load(writer.path), None, 100).commits


def rendered(**info):
    return render(parse_commit(3, json.dumps({"commitInfo": info}).encode()))


def test_rounds_retention_and_owners_are_told_apart(writer):
    writer.add(0, 0, 10, missing=[4])
    writer.add(0, 10, 20)
    deltalake.DeltaTable(writer.path).optimize.compact()
    [file] = load(writer.path).files.values()
    gone = [(file.path, 0, file.size)]
    remove_files(writer.path, TOPIC_ID, gone, now_ms=1, log_starts={0: 20})
    removal, optimize, second, first, created = all_of(writer)
    assert [one.written_by for one in (removal, optimize, second, first)] == [
        "retention",
        "other",
        "compactor",
        "compactor",
    ]
    assert (created.version, created.operation) == (0, "CREATE TABLE")
    assert created.written_by == "compactor"
    assert (removal.log_starts, removal.files_removed) == ({0: 20}, 1)
    assert (optimize.operation, optimize.files_removed) == ("OPTIMIZE", 2)
    assert first.ranges[0].model_dump() == {
        "partition_id": 0,
        "first_offset": 0,
        "end_offset": 10,
        "records": None,
    }
    assert (first.rows_added, first.files_added) == (9, 1)
    assert first.bytes_added > 0
    assert first.timestamp_ms > 1_600_000_000_000


def test_what_key_compaction_did_is_told_from_what_an_owner_does():
    cleaned = {"0": [0, 10, 2, 10, 7]}
    assert rendered(**{"lakelog.cleaned": cleaned}).written_by == "cleaning"


def test_a_table_that_an_owner_made_is_not_called_ours(tmp_path):
    """A topic's table has its topic's id, and so has a clone of it."""
    deltalake.DeltaTable.create(str(tmp_path), SCHEMA)
    [created] = history(load(str(tmp_path)), None, 1).commits
    assert created.written_by == "other"
    ours = {"metaData": {"id": "i", "configuration": {"lakelog.topicId": TOPIC_ID}}}
    for version, operation in ((0, "CLONE"), (3, "CREATE OR REPLACE TABLE")):
        lines = [{"commitInfo": {"operation": operation}}, ours]
        text = "\n".join(map(json.dumps, lines)).encode()
        assert render(parse_commit(version, text)).written_by == "other"


def test_an_erasure_is_told_apart_as_well():
    info = {"lakelog.erased": {"request": "ab", "0": [1, 2, 3]}}
    assert rendered(**info).written_by == "erase"


def test_they_come_newest_first_in_pages_to_the_end_of_the_log(writer):
    for n in range(6):
        writer.add(0, n, n + 1)
    snapshot = load(writer.path)
    Path(entry_path(writer.path, 0)).unlink()
    found, below = [], None
    while True:
        page = history(snapshot, below, 4)
        found += [one.version for one in page.commits]
        if page.last is None:
            break
        below = page.last
    assert found == [6, 5, 4, 3, 2, 1]


def test_a_page_below_what_there_is_is_empty_or_starts_at_the_newest(writer):
    snapshot = load(writer.path)
    assert history(snapshot, 0, 5) == ([], None)
    assert [one.version for one in history(snapshot, 10**18, 5).commits] == [0]


@pytest.mark.parametrize(
    ("metrics", "wanted"),
    [
        ({"executionTimeMs": "120"}, 120),
        ({"execution_time_ms": 7}, 7),
        ({"executionTimeMs": "soon", "execution_time_ms": 7}, 7),
        ({"executionTimeMs": True}, None),
        ({"executionTimeMs": "9" * 5000}, None),
        ({}, None),
        ("fast", None),
        (None, None),
    ],
)
def test_a_duration_is_shown_where_its_writer_says_it(metrics, wanted):
    assert rendered(operationMetrics=metrics).duration_ms == wanted


def test_what_makes_no_sense_is_left_out():
    found = rendered(**{
        "operation": {"a": 1},
        "timestamp": "x",
        "engineInfo": 5,
        "lakelog.logStart": {"a": 1, "0": "x", "1": 4},
    })  # fmt: skip
    assert (found.operation, found.timestamp_ms, found.engine) == (None, None, None)
    assert found.log_starts == {1: 4}
    assert rendered(**{"lakelog.ranges": "x", "lakelog.logStart": 5}).ranges == []


def test_an_entry_that_cannot_be_read_says_so(writer):
    writer.add(0, 0, 1)
    snapshot = load(writer.path)
    Path(entry_path(writer.path, 1)).write_bytes(b'{"add": {}}')
    broken, created = history(snapshot, None, 5).commits
    assert "cannot be understood" in broken.problem
    assert created.problem is None


def test_where_no_file_stands_in_an_entrys_place_the_others_are_told(writer):
    for first in (0, 10):
        writer.add(0, first, first + 10)
    snapshot, entry = load(writer.path), Path(entry_path(writer.path, 1))
    entry.unlink()
    os.mkfifo(entry)
    newest, damaged, created = history(snapshot, None, 100).commits
    assert [one.problem for one in (newest, created)] == [None, None]
    assert damaged.problem == f"{entry} is no file but a FIFO"
