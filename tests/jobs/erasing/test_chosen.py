"""What the format fills, and we, is nobody's choice; all else may quote a row."""

import json
from typing import Any

import pytest

from jobs.erasing.chosen import bounded_columns, chosen, texts
from jobs.erasing.log_files import TEXT
from lakehouse.log.provenance import ENGINE

STATS = json.dumps({"minValues": {"offset": 0, "x": "a"}, "maxValues": {"y": None}})


def did(operation: str, *expected: set[str], **parameters: str) -> tuple[Any, ...]:
    """A commit of an owner's, and what of it he chose."""
    info = {"operation": operation, "operationParameters": parameters}
    return ("commitInfo", info, *expected)


SAID = "The record's time (whose: timestampType), to the millisecond; null: it has none"
TABLE = json.dumps({"fields": [{"name": "timestamp", "metadata": {"comment": SAID}}]})
"""Of an earlier version."""
COLUMN = {"name": "x", "type": "decimal(17,2)", "nullable": True, "metadata": {}}


def described(said: dict[str, str] | None = None, **beside: str) -> str:
    """A column as Spark's statements describe it."""
    return json.dumps([{"column": COLUMN | {"metadata": said or {}}, **beside}])


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("add", {"path": "x", "size": 17, "partitionValues": {"partition": "0"}}),
        ("add", {"stats": '{"numRecords":17,"minValues":{"offset":17}}'}),
        ("protocol", {"minReaderVersion": 3, "readerFeatures": ["columnMapping"]}),
        ("txn", {"appId": "ab" * 16 + "/17", "version": 17, "lastUpdated": 17}),
        ("domainMetadata", {"domain": "delta.rowTracking", "configuration": "17"}),
        ("metaData", {"id": "17", "configuration": {"delta.x": "17"}}),
        ("metaData", {"schemaString": TABLE}),
        ("tableSizeBytes", 17),
        ("fileSizeHistogram", {"fileCounts": [17]}),
        ("commitInfo", {"engineInfo": ENGINE, "x": "17"}),
        did("UPGRADE PROTOCOL", newProtocol='{"minWriterVersion":17}'),
        did("SET TBLPROPERTIES", properties='{"delta.x":"interval 17 days"}'),
        did("STREAMING UPDATE", outputMode="Append", epochId="17"),
        did("WRITE", mode="Append", partitionBy='["partition"]'),
        did("CLONE", isShallow="true", sourceVersion="17"),
        did("DROP CONSTRAINT", existed="true"),
        did("UNSET TBLPROPERTIES", properties='["delta.x17"]', ifExists="true"),
        did("REORG", applyPurge="true"),
        did("MERGE", matchedPredicates='[{"actionType":"update"}]'),
    ],
)
def test_what_the_format_fills_is_nobodys_choice(kind: str, body: Any) -> None:
    assert "".join(chosen(kind, body)) == ""


@pytest.mark.parametrize(
    ("kind", "body", "expected"),
    [
        ("add", {"tags": {"who": 1}, "stats": STATS}, {"who", "1", "a"}),
        ("add", {"stats": "17"}, {"17"}),
        ("add", {"stats": '{"numRecords": 17, "who": "x"}'}, {"x"}),
        ("cdc", {"stats_parsed": {"minValues": {"x": b"\xff"}}}, {"\ufffd", "ff"}),
        ("new", {"path": [17, {"x": True}]}, {"17", "x"}),
        ("metaData", {"configuration": [("mine", "17")]}, {"mine", "17"}),
        ("commitInfo", {"operation": "DELETE", "timestamp": 17, "x": "y"}, {"x", "y"}),
        did("SET TBLPROPERTIES", {"mine", "17"}, properties='{"mine":"17"}'),
        did("WRITE", {"x = 17"}, mode="Append", predicate="x = 17"),
        did("ADD COLUMNS", {"x", "after y"}, columns=described(position="after y")),
        did("ADD COLUMN", {"x"}, fields=json.dumps([COLUMN])),
        did("CHANGE COLUMN", {"x"}, column=json.dumps(COLUMN)),
        did("CHANGE COLUMN", {"17"}, column="17"),
        did("REPLACE COLUMNS", {"x"}, columns=json.dumps([COLUMN])),
        did("UPDATE SCHEMA", {"x"}, newSchema=json.dumps({"fields": [COLUMN]})),
        did("DROP COLUMNS", {"17", "x.y"}, columns='["17","x.y"]'),
        did(
            "ADD COLUMNS",
            {"x", "CURRENT_DEFAULT", "17", "of 17"},
            columns=described({"CURRENT_DEFAULT": "17", "comment": "of 17"}),
        ),
        did("ADD COLUMNS", {"[{torn 17"}, columns="[{torn 17"),
        did("UNSET TBLPROPERTIES", {"17", "[]"}, properties='["17"]', x="[]"),
        did(
            "MERGE",
            {"x = 17", "y", "1"},
            matchedPredicates='[{"actionType":"update","predicate":"x = 17","y":1}]',
        ),
        did("MERGE", {"17"}, notMatchedPredicates='["17"]'),
        (TEXT, '{"add":"\\u0041\\n', {'{"add":"\\u0041\\n', '{"add":"A\n'}),
    ],
)
def test_all_else_is_somebodys(kind: str, body: Any, expected: set[str]) -> None:
    assert {text for text in chosen(kind, body) if text} == expected


def test_columns_have_bounds_where_there_is_a_value() -> None:
    assert bounded_columns("add", {"stats": STATS}) == {"x"}
    assert bounded_columns("remove", {"stats_parsed": json.loads(STATS)}) == {"x"}
    torn = json.dumps({"add": {"stats": STATS}})[:-3]
    assert bounded_columns(TEXT, torn) == {"x"}
    assert bounded_columns("metaData", {"stats": STATS}) == set()
    assert bounded_columns("add", "x") == bounded_columns(TEXT, "x") == set()


def test_texts_are_found_however_deep_they_stand() -> None:
    nested: Any = "x"
    for _ in range(5_000):
        nested = {"a": [nested]}
    assert set(texts(nested)) == {"a", "x"}
