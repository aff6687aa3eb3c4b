"""Columns that an owner added: of all known types, in files with and without them."""

import json
from typing import Any

import pyarrow as pa
import pytest

from lakehouse.errors import TableUnreadable
from lakehouse.log.delta_log import load
from lakehouse.owners_columns import all_columns, shaped
from lakehouse.schema import WRITE
from tests.support.tables import Writer, rows


def with_columns(**columns: Any) -> str:
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in columns.items()
    ]
    return json.dumps({"type": "struct", "fields": fields})


def test_a_table_as_it_was_made_has_ours(tmp_path: Any) -> None:
    metadata = load(Writer(str(tmp_path)).path).metadata
    assert metadata is not None
    assert all_columns(metadata.schema_string) == WRITE


@pytest.mark.parametrize(
    ("kind", "arrow"),
    [
        ("string", pa.string()),
        ("decimal(10,2)", pa.decimal128(10, 2)),
        ("timestamp", pa.timestamp("us", "UTC")),
        ({"type": "array", "elementType": "long"}, pa.list_(pa.int64())),
        (
            {"type": "map", "keyType": "string", "valueType": "double"},
            pa.map_(pa.string(), pa.float64()),
        ),
        (
            {"type": "struct", "fields": [{"name": "a", "type": "date"}]},
            pa.struct([("a", pa.date32())]),
        ),
    ],
)
def test_others_stand_behind_ours(kind: Any, arrow: pa.DataType) -> None:
    found = all_columns(with_columns(offset="long", x=kind))
    assert found.names == [*WRITE.names, "x"]
    assert found.field("x").type == arrow


@pytest.mark.parametrize("kind", ["variant", "timestamp_ntz", {"type": "odd"}, 7])
def test_a_type_that_nobody_knows_is_told(kind: Any) -> None:
    with pytest.raises(TableUnreadable):
        all_columns(with_columns(x=kind))


def test_what_a_file_lacks_is_null_but_its_partition() -> None:
    schema = all_columns(with_columns(x="string", y="long"))
    table = rows(3, range(5)).drop_columns(["partition", "topic"])
    table = table.append_column("y", pa.array(range(5), pa.int32()))
    found = shaped(table, schema, 3)
    assert found.schema == schema
    assert found["partition"].to_pylist() == [3] * 5
    assert found["topic"].null_count == found["x"].null_count == 5
    assert found["y"].to_pylist() == list(range(5))
    assert found["value"].to_pylist() == rows(3, range(5))["value"].to_pylist()


def test_a_column_is_found_however_a_file_or_the_table_spells_it() -> None:
    schema = all_columns(with_columns(offset="long", Topic="string", x="long"))
    assert schema.names == [*(n for n in WRITE.names if n != "topic"), "Topic", "x"]
    table = rows(3, range(5)).append_column("X", pa.array(range(5)))
    found = shaped(table, schema, 3)
    assert found["Topic"].to_pylist() == ["orders"] * 5
    assert found["x"].to_pylist() == list(range(5))


def test_a_column_gets_nothing_of_one_that_differs_by_its_case() -> None:
    schema = all_columns(with_columns(offset="long", key="binary", KEY="binary"))
    found = shaped(rows(3, range(5)), schema, 3)
    assert found["key"].to_pylist() == rows(3, range(5))["key"].to_pylist()
    assert found["KEY"].null_count == 5


def test_a_struct_whose_fields_are_spelled_otherwise_is_not_made_null() -> None:
    inner = {"type": "struct", "fields": [{"name": "a", "type": "long"}]}
    schema = all_columns(with_columns(x={"type": "array", "elementType": inner}))

    def with_fields(*names: str) -> Any:
        values = [[dict.fromkeys(names, n)] for n in range(5)]
        kind = pa.list_(pa.struct([(name, pa.int32()) for name in names]))
        return rows(3, range(5)).append_column("x", pa.array(values, kind))

    found = shaped(with_fields("a", "b"), schema, 3)
    assert found["x"].to_pylist() == [[{"a": n}] for n in range(5)]
    assert shaped(with_fields("b"), schema, 3)["x"].to_pylist() == [[{"a": None}]] * 5
    with pytest.raises(pa.ArrowInvalid, match="its field a otherwise"):
        shaped(with_fields("A"), schema, 3)


@pytest.mark.parametrize(("named", "inside"), [("keys", "A"), ("Key", "a")])
def test_how_a_map_calls_its_own_fields_does_not_matter(
    named: str, inside: str
) -> None:
    pair = {"type": "struct", "fields": [{"name": "a", "type": "long"}]}
    kind = {"type": "map", "keyType": "string", "valueType": pair}
    item = pa.struct([(inside, pa.int64())])
    theirs = pa.map_(pa.field(named, pa.string(), False), pa.field("v", item))
    values = pa.array([[("k", {inside: 7})]], theirs)
    table = rows(3, range(1)).append_column("x", values)
    schema = all_columns(with_columns(x=kind))
    if inside == "a":
        assert shaped(table, schema, 3)["x"].to_pylist() == [[("k", {"a": 7})]]
        return
    with pytest.raises(pa.ArrowInvalid, match="its field a otherwise"):
        shaped(table, schema, 3)


def test_a_value_that_does_not_fit_is_an_error() -> None:
    table = pa.table({"offset": pa.array([1.5])})
    with pytest.raises(pa.ArrowInvalid):
        shaped(table, WRITE, 0)
