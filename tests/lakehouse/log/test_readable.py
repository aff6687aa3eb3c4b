"""What makes a table unreadable: what is unknown, and what no record can be without."""

import json
from pathlib import Path
from typing import Any

import pytest

from lakehouse.log.actions import (
    COLUMNS,
    NO_PARTITION,
    PHYSICAL_NAME,
    Metadata,
    Protocol,
    metadata_of,
    partition_of,
    protocol_of,
)
from lakehouse.log.delta_log import entry_path, follow, load
from lakehouse.log.readable import why_unreadable
from tests.support.tables import Writer

MODE = "delta.columnMapping.mode"


def test_columns_have_no_case() -> None:
    fields = [
        {"name": name, "metadata": {PHYSICAL_NAME: name.upper()}} for name in COLUMNS
    ]
    body = {
        "id": "x",
        "schemaString": json.dumps({"fields": fields}),
        "partitionColumns": ["PARTITION"],
    }
    mapped = body | {"configuration": {"delta.columnMapping.mode": "name"}}
    assert why_unreadable(Protocol(), metadata_of(body)) is None
    assert why_unreadable(Protocol(2, 5), metadata_of(mapped)) is None


def test_features_that_are_no_names_are_told_as_such() -> None:
    features = [["a"], 5]
    body = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features}
    why = why_unreadable(protocol_of(body), metadata_of({"id": "x"}))
    assert why == "it needs the reader features 5, ['a']"


def test_columns_whose_names_are_none_are_missing() -> None:
    odd = {"name": "value", "metadata": {PHYSICAL_NAME: {"x": 1}}}
    body = {"id": "x", "schemaString": json.dumps({"fields": [odd]})}
    mapped = body | {"configuration": {"delta.columnMapping.mode": "name"}}
    why = why_unreadable(Protocol(2, 5), metadata_of(mapped))
    assert why == f"its columns are mapped by name: {', '.join(sorted(COLUMNS))}"


@pytest.mark.parametrize(
    ("columns", "back"),
    [
        (["part"], "part, not by partition: rename it back"),
        (["part", "theirs"], "part, theirs, not by partition: overwrite it with"),
        (["theirs"], "theirs, not by partition: overwrite it with what it has, and"),
        ([], "nothing, not by partition: overwrite it with what it has, and"),
    ],
)
def test_a_partition_column_that_was_renamed_is_to_be_renamed_back(
    columns: list[str], back: str
) -> None:
    """ALTER TABLE ... RENAME COLUMN partition TO part, of mapped columns."""
    mapped = [
        {"name": name, "metadata": {PHYSICAL_NAME: name}}
        for name in sorted(COLUMNS - {"partition"})
    ]
    mapped.append({"name": "part", "metadata": {PHYSICAL_NAME: "partition"}})
    mapped.append({"name": "theirs", "metadata": {PHYSICAL_NAME: "col-1"}})
    metadata = metadata_of(
        {
            "id": "x",
            "schemaString": json.dumps({"fields": mapped}),
            "partitionColumns": columns,
            "configuration": {"delta.columnMapping.mode": "name"},
        }
    )
    why = why_unreadable(Protocol(2, 5), metadata)
    assert (why or "").startswith(f"it is partitioned by {back}")


def with_columns(names: Any, **said: str) -> Metadata:
    fields = [{"name": name, "metadata": {}} for name in names]
    return metadata_of(
        {
            "id": "x",
            "schemaString": json.dumps({"fields": fields}),
            "partitionColumns": ["partition"],
            "configuration": said,
        }
    )


@pytest.mark.parametrize("name", ["key", "value", "offset"])
def test_without_what_makes_a_record_nothing_is_read(name: str) -> None:
    """RENAME COLUMN value TO payload, and then DROP FEATURE columnMapping."""
    left = with_columns({*COLUMNS, "payload"} - {name})
    for protocol in (Protocol(), Protocol(2, 5), Protocol(3, 7)):
        why = why_unreadable(protocol, left)
        assert why is not None
        assert why.startswith(f"its column {name} is missing, and consumers would")
        assert "RESTORE it to the version before if nothing was added since" in why


def test_several_columns_that_are_missing_are_named_together() -> None:
    why = why_unreadable(Protocol(), with_columns(COLUMNS - {"key", "value"}))
    assert str(why).startswith("its columns key and value are missing, and")


@pytest.mark.parametrize(
    "columns",
    [
        COLUMNS,
        COLUMNS - {"headers"},
        COLUMNS - {"timestamp", "timestampType"},
        COLUMNS - {"value"} | {"VALUE"},
    ],
)
def test_what_a_record_can_be_without_may_be_missing(columns: Any) -> None:
    assert why_unreadable(Protocol(), with_columns(columns)) is None


@pytest.mark.parametrize("off", ["none", "None", "NONE"])
def test_mapping_is_off_in_whatever_case(off: str) -> None:
    assert why_unreadable(Protocol(2, 5), with_columns(COLUMNS, **{MODE: off})) is None


@pytest.mark.parametrize("name", ["name", "NAME", "Name"])
def test_mapping_by_name_is_read_in_whatever_case(name: str) -> None:
    mapped = with_columns(COLUMNS, **{MODE: name})
    assert why_unreadable(Protocol(2, 5), mapped) is None
    by_id = with_columns(COLUMNS, **{MODE: "ID"})
    assert str(why_unreadable(Protocol(2, 5), by_id)).startswith("its columns are map")


@pytest.mark.parametrize("said", ["0.0", "00", " 0", "1_0", "+1", "-0", "x", "٣", 0.5])
def test_files_of_a_partition_that_is_no_number_of_ours_make_a_table_unreadable(
    tmp_path: Path, said: Any
) -> None:
    """As long as they are in it: what they were is nobody's matter behind a RESTORE."""
    writer = Writer(str(tmp_path))
    writer.add(0, 0, 10)
    (before,) = load(writer.path).files
    entry = Path(entry_path(writer.path, 1)).read_text()
    [add] = [json.loads(line) for line in entry.splitlines() if '"add"' in line]
    odd = {
        "path": "partition=odd/part-0.parquet",
        "partitionValues": {"partition": said},
    }
    removed = {"remove": {"path": before, "dataChange": True}}
    put(writer, 2, removed, {"add": add["add"] | odd})
    followed = load(writer.path)
    why = "the partition of its file partition=odd/part-0.parquet is no number as ours"
    assert str(followed.unreadable).startswith(why)
    put(writer, 3, add, {"remove": {"path": odd["path"], "dataChange": True}})
    follow(followed)
    assert (followed.version, followed.unreadable) == (3, None)
    assert load(writer.path).unreadable is None


def put(writer: Writer, version: int, *actions: dict[str, Any]) -> None:
    text = "\n".join(map(json.dumps, actions))
    Path(entry_path(writer.path, version)).write_text(text)


@pytest.mark.parametrize(
    ("said", "partition"),
    [
        ("0", 0),
        ("10", 10),
        (7, 7),
        ("-5", -5),
        ("-1", -1),
        ("-2147483648", -(1 << 31)),
        ("12345678901", 12_345_678_901),
        ("-9223372036854775808", -(1 << 63)),
        ("", NO_PARTITION),
        (None, NO_PARTITION),
    ],
)
def test_a_partition_is_one_of_ours_if_it_is_written_so(
    said: Any, partition: int
) -> None:
    assert partition_of(said) == partition
