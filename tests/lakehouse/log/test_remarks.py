"""What an owner asked of a table that stops nothing is said in a sentence each."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import deltalake
import pytest

from lakehouse.errors import CommitRefused
from lakehouse.log.commit import remove_files
from lakehouse.log.delta_log import Snapshot, entry_path, load
from lakehouse.log.remarks import remarks_of
from tests.support.tables import TOPIC_ID, Writer


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    return Writer(str(tmp_path))


def configure(writer: Writer, **more: Any) -> Snapshot:
    """As Spark commits it, which takes properties in whatever case."""
    table = load(writer.path)
    assert table.metadata is not None
    said = {key.replace("__", "."): value for key, value in more.items()}
    body = {**table.metadata.body, "configuration": {**table.configuration, **said}}
    entry = Path(entry_path(table.path, table.version + 1))
    entry.write_text(json.dumps({"metaData": body}))
    return load(writer.path)


def test_of_a_table_as_it_was_made_nothing_is_remarked(writer: Writer) -> None:
    assert remarks_of(load(writer.path)) == []
    assert remarks_of(configure(writer, delta__appendOnly="False")) == []


def test_that_nobody_understands_how_long_files_stay_is_one(writer: Writer) -> None:
    odd = configure(writer, delta__deletedFileRetentionDuration="a while")
    assert remarks_of(odd) == [odd.unclear]


def test_constraints_are_named_that_no_record_is_held_against(writer: Writer) -> None:
    table = deltalake.DeltaTable(writer.path)
    table.alter.add_constraint({"short": "offset < 5"})
    writer.add(0, 0, 10)
    [remark] = remarks_of(load(writer.path))
    assert "CHECK constraints are held against no record (short)" in remark
    assert remark.endswith("until its owner says ALTER TABLE ... DROP CONSTRAINT short")
    [remark] = remarks_of(configure(writer, delta__constraints__a="key IS NULL"))
    assert remark.endswith("DROP CONSTRAINT a and DROP CONSTRAINT short")


@pytest.mark.parametrize(
    "rule",
    [
        {"nullable": False},
        {"metadata": {"delta.invariants": "{}"}},
        {"metadata": {"delta.generationExpression": "offset * 2"}},
    ],
)
def test_columns_are_named_whose_rules_no_record_is_held_against(
    writer: Writer, rule: dict[str, Any]
) -> None:
    table = load(writer.path)
    assert table.metadata is not None
    schema = json.loads(table.metadata.schema_string)
    beside = {"name": "theirs", "type": "long", "nullable": True, "metadata": {}}
    schema["fields"].append(beside | rule)
    table.metadata = replace(table.metadata, schema_string=json.dumps(schema))
    [remark] = remarks_of(table)
    assert "is held against no record (theirs)" in remark
    table.metadata = replace(table.metadata, schema_string="?")
    assert remarks_of(table) == []
    table.metadata = None
    assert remarks_of(table) == []


@pytest.mark.parametrize("yes", ["true", "TRUE", "True"])
def test_nothing_leaves_a_table_where_its_owner_lets_none(
    writer: Writer, yes: str
) -> None:
    """The library takes TRUE for no."""
    writer.add(0, 0, 10)
    table = configure(writer, delta__appendOnly=yes)
    (old,) = table.files.values()
    gone = [(old.path, 0, old.size, 10)]
    with pytest.raises(CommitRefused, match=f"delta.appendOnly is {yes}"):
        remove_files(writer.path, TOPIC_ID, gone, now_ms=1, log_starts={0: 10})
    assert load(writer.path).files == table.files
    [remark] = remarks_of(table)
    assert remark.startswith("no row leaves it, neither by retention nor by Delete")
    assert f"delta.appendOnly is {yes}" in remark
    assert writer.add(0, 10, 20).version == 3
