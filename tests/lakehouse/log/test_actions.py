"""What a log entry says of a file."""

import json
from typing import Any

import pytest

from lakehouse.log.actions import (
    UNKNOWN_MAX,
    UNKNOWN_MIN,
    Protocol,
    data_file,
    metadata_of,
)
from lakehouse.log.readable import why_unreadable


def add(stats: dict[str, Any] | None, vector: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "path": "a.parquet",
        "partitionValues": {"partition": "3"},
        "size": 100,
        "modificationTime": 1,
        "stats": stats and json.dumps(stats),
        "deletionVector": vector,
    }


VECTOR = {"storageType": "u", "pathOrInlineDv": "x", "sizeInBytes": 1, "cardinality": 4}


@pytest.mark.parametrize(
    ("stats", "vector", "rows"),
    [
        ({"numRecords": 10}, None, 10),
        ({"numRecords": 10}, VECTOR, 6),
        (None, VECTOR, -1),
        ({"numRecords": 10}, {"storageType": "u"}, -1),
    ],
)
def test_the_rows_of_a_file_are_those_that_are_not_deleted(
    stats: Any, vector: Any, rows: int
) -> None:
    file = data_file(add(stats, vector))
    assert file.rows == rows
    assert (file.vector is not None) == (vector is not None)


@pytest.mark.parametrize(
    "wrong", [{"partitionColumns": [["a"], None]}, {"configuration": {"a": [1]}}]
)
def test_metadata_is_text_whatever_its_owner_wrote(wrong: dict[str, Any]) -> None:
    metadata = metadata_of({"id": 5, "schemaString": "{}"} | wrong)
    texts = (metadata.id, *metadata.partition_columns, *metadata.configuration.values())
    assert all(isinstance(text, str) for text in texts)
    assert why_unreadable(Protocol(), metadata) is not None


def test_statistics_and_partition_are_found_under_names_that_differ_in_case() -> None:
    low, high = ({"OFFSET": n, "TimeStamp": f"1970-01-01T00:00:0{n}Z"} for n in (3, 7))
    nulls = {"Offset": 0, "timestamp": 0}
    said = {"numRecords": 5, "minValues": low, "maxValues": high, "nullCount": nulls}
    file = data_file(add(said, None) | {"partitionValues": {"Partition": "2"}})
    assert (file.partition, file.first_offset, file.last_offset) == (2, 3, 7)
    assert (file.timestamp_min_ms, file.timestamp_max_ms) == (3000, 7000)
    assert file.is_timed
    unclear = data_file(add(said | {"minValues": low | {"Offset": 4}}, None))
    assert not unclear.is_bounded


@pytest.mark.parametrize(
    ("nulls", "bounds"),
    [
        (10, (-1, -1)),
        (9, (UNKNOWN_MIN, UNKNOWN_MAX)),
        (None, (UNKNOWN_MIN, UNKNOWN_MAX)),
    ],
)
def test_rows_of_which_none_has_a_timestamp_are_known_to_have_none(
    nulls: int | None, bounds: tuple[int, int]
) -> None:
    """As an owner leaves them who takes all timestamps out."""
    file = data_file(add({"numRecords": 10, "nullCount": {"timestamp": nulls}}, None))
    assert (file.timestamp_min_ms, file.timestamp_max_ms) == bounds
