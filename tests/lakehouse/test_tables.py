"""What a new table says of itself, to whoever asks the Delta log."""

import json

import deltalake

from lakehouse.log import delta_log
from lakehouse.schema import COMMENTS, WRITE
from lakehouse.tables import create_table
from tests.support.tables import TOPIC_ID, Writer


def test_each_column_says_what_it_is(tmp_path):
    path = create_table(str(tmp_path), "orders", TOPIC_ID, 2)
    metadata = delta_log.load(path).metadata
    assert metadata is not None
    fields = json.loads(metadata.schema_string)["fields"]
    assert {one["name"]: one["metadata"]["comment"] for one in fields} == COMMENTS
    assert list(COMMENTS) == WRITE.names


def test_what_an_owner_said_of_a_column_stays(tmp_path):
    writer = Writer(str(tmp_path))
    table = deltalake.DeltaTable(writer.path)
    table.alter.set_column_metadata("value", {"comment": "in grams"})
    create_table(str(tmp_path), writer.topic, TOPIC_ID, 2)  # a compactor's next start
    writer.add(0, 0, 10)
    metadata = delta_log.load(writer.path).metadata
    assert metadata is not None
    found = {one["name"]: one for one in json.loads(metadata.schema_string)["fields"]}
    assert found["value"]["metadata"] == {"comment": "in grams"}
    assert found["key"]["metadata"] == {"comment": COMMENTS["key"]}
