"""What an entry of ours says, as Delta's readers are to understand it."""

import json

import pytest

from lakehouse.log.actions import Vector, data_file, parse_commit
from lakehouse.log.entry import (
    Moment,
    Removal,
    Removals,
    Round,
    removals_entry,
    round_entry,
)
from lakehouse.new_file import NewFile
from lakehouse.properties import LOG_START, RANGES
from tests.support.tables import TOPIC_ID

FILE = NewFile("partition=3/a.parquet", 3, 70, 9, 10, 19, 1_000, 2_000, 55)


def lines(text: bytes) -> list[dict[str, dict[str, object]]]:
    assert text.endswith(b"\n")
    return [json.loads(line) for line in text.splitlines()]


def test_a_round_says_its_files_its_ends_and_that_it_read_nothing() -> None:
    ends = {TOPIC_ID: 4, f"{TOPIC_ID}/3": 20}
    text = round_entry(Round([FILE], ends, {RANGES: {"3": [10, 20]}}), 6, Moment(99))
    info = lines(text)[0]["commitInfo"]
    assert (info["timestamp"], info["readVersion"]) == (99, 6)
    assert info["isBlindAppend"] is True
    assert info["operationMetrics"] == {
        "numFiles": "1", "numOutputRows": "9", "numOutputBytes": "70",
    }  # fmt: skip
    commit = parse_commit(7, text)
    assert commit.transactions == ends
    assert commit.ranges == {3: (10, 20)}
    assert (commit.changes_data, commit.is_owners) == (True, False)
    [file] = commit.adds
    assert (file.path, file.partition, file.rows) == (FILE.path, 3, 9)
    assert (file.first_offset, file.last_offset, file.size) == (10, 19, 70)
    assert (file.timestamp_min_ms, file.timestamp_max_ms) == (1_000, 2_000)


def test_a_path_is_percent_encoded_as_the_protocol_wants_it() -> None:
    odd = FILE._replace(path="partition=3/a b%é.parquet")
    [file] = parse_commit(1, round_entry(Round([odd], {}, {}), 0, Moment(1))).adds
    assert file.path == "partition=3/a%20b%25%C3%A9.parquet"
    assert file.relative_path == odd.path


@pytest.mark.parametrize("offset", [None, 0, 9])
def test_what_leaves_is_named_with_its_deletion_vector(offset: int | None) -> None:
    vector = Vector("u", "ab^-aqEH.-t@S}K{vb[*k^", offset, 40, 6)
    gone = Removals([Removal("a.parquet", 0, 5, 4, vector)], 77, {})
    removed = lines(removals_entry(gone, 3, Moment(99)))[1]["remove"]
    body = {"path": "a.parquet", "size": 5, "deletionVector": vector.body}
    assert removed.items() >= body.items()
    assert data_file(body).vector == vector
    assert ("offset" in vector.body) == (offset is not None)


def test_what_leaves_is_named_as_the_log_has_it() -> None:
    gone = Removals([Removal("a%20b.parquet", 0, 5)], 77, {LOG_START: {"0": 10}})
    text = removals_entry(gone, 3, Moment(99))
    assert lines(text)[0]["commitInfo"]["isBlindAppend"] is False
    commit = parse_commit(4, text)
    assert commit.removes == {"a%20b.parquet": 77}
    assert not commit.is_owners
    assert commit.changes_data
