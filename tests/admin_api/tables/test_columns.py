"""Columns are shown as Spark writes them."""

import json

import pytest

from admin_api.tables.columns import columns_of
from lakehouse.log.delta_log import load
from lakehouse.schema import COMMENTS
from tests.support.tables import Writer


def test_the_columns_of_a_topics_table(tmp_path):
    metadata = load(Writer(str(tmp_path)).path).metadata
    found = {one.name: one.type for one in columns_of(metadata.schema_string)}
    assert found == {
        "partition": "int",
        "offset": "bigint",
        "timestamp": "timestamp",
        "timestampType": "int",
        "topic": "string",
        "key": "binary",
        "value": "binary",
        "headers": "array<struct<key:string,value:binary>>",
    }


def test_what_a_column_is_said_to_be(tmp_path):
    metadata = load(Writer(str(tmp_path)).path).metadata
    found = {one.name: one.comment for one in columns_of(metadata.schema_string)}
    assert found == COMMENTS


@pytest.mark.parametrize("said", [None, {}, {"comment": None}, {"comment": 5}, []])
def test_a_column_of_which_nothing_is_said(said):
    fields = [{"name": "a", "type": "long", "nullable": True, "metadata": said}]
    [found] = columns_of(json.dumps({"type": "struct", "fields": fields}))
    assert found.comment is None


def test_what_an_owner_added():
    kind = {"type": "map", "keyType": "string", "valueType": "decimal(10,2)"}
    fields = [{"name": "prices", "type": kind, "nullable": False}]
    [found] = columns_of(json.dumps({"type": "struct", "fields": fields}))
    assert (found.type, found.nullable) == ("map<string,decimal(10,2)>", False)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "{}", '{"fields":[{}]}', '{"fields":[5]}',
             '{"fields":[{"name":"a","type":{"type":"array"}}]}']
)  # fmt: skip
def test_a_schema_that_is_none_has_no_columns(text):
    assert columns_of(text) == []
