"""What a log entry says of a file."""

import json
from typing import Any

import pytest

from lakehouse.actions import data_file


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
    assert file.has_deletion_vector == (vector is not None)
