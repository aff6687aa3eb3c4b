"""What a new table says of itself, to whoever asks the Delta log."""

import json
import os
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from lakehouse.errors import CommitRefused
from lakehouse.log import delta_log
from lakehouse.log.delta_log import entry_path
from lakehouse.schema import COMMENTS, WRITE
from lakehouse.tables import create_table, repair
from tests.support.compacted_log import compact_log
from tests.support.syscalls import SystemCalls
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


def noted_beside(path: str, version: int) -> list[Path]:
    """What Spark keeps beside an entry on a local disk: what it says of the version,
    from which Spark and the library take the metadata, and Hadoop's checksums."""
    entry = Path(entry_path(path, version))
    said = {
        name: action[name]
        for action in map(json.loads, entry.read_text().splitlines())
        for name in action
    }
    of_version = entry.with_suffix(".crc")
    protocol = {"minReaderVersion": 1, "minWriterVersion": 2}
    counts = {"tableSizeBytes": 0, "numFiles": 0, "numMetadata": 1, "numProtocol": 1}
    told = {**counts, "metadata": said["metaData"], "protocol": protocol}
    of_version.write_text(json.dumps(told))
    sums = [entry.with_name(f".{one.name}.crc") for one in (entry, of_version)]
    for one in sums:
        one.write_bytes(b"crc\0\0\0\2\0aaaa")
    return [of_version, *sums]


def columns(path: str) -> list[str]:
    return [field.name for field in deltalake.DeltaTable(path).schema().fields]


def test_what_its_writer_noted_of_a_torn_entry_goes_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or readers take it for that of our entry at the same version: they refuse this,
    or see columns that no entry has added."""
    writer = Writer(str(tmp_path))
    writer.add(0, 0, 10)
    theirs = deltalake.Field("theirs", deltalake.schema.PrimitiveType("string"))
    deltalake.DeltaTable(writer.path).alter.add_columns(theirs)
    noted = noted_beside(writer.path, 2)
    assert columns(writer.path)[-1] == "theirs"
    entry = Path(entry_path(writer.path, 2))
    entry.write_bytes(entry.read_bytes()[:-40])
    with monkeypatch.context() as patch:
        calls = SystemCalls(patch, entry.parent)
        assert repair(writer.path) is not None
    assert [one.name for one in noted if one.exists()] == []
    assert calls.events[-1:] == calls.of("sync") == ["sync directory ."]
    assert writer.add(0, 10, 20).version == 2
    assert columns(writer.path) == WRITE.names


def test_a_log_compaction_of_a_torn_entry_goes_with_it(tmp_path: Path) -> None:
    """Or readers take it in place of our entry at the same version, and see what was
    torn; what holds whole entries alone stays."""
    writer = Writer(str(tmp_path))
    writer.add(0, 0, 10)
    deltalake.DeltaTable(writer.path).delete("offset = 3")
    stays, goes = compact_log(writer.path, 0, 1), compact_log(writer.path, 1, 2)
    entry = Path(entry_path(writer.path, 2))
    entry.write_bytes(entry.read_bytes()[:-40])
    assert repair(writer.path) is not None
    assert [one.exists() for one in (*stays, *goes)] == [True, True, False, False]


def test_a_torn_entry_of_which_nothing_is_noted_is_moved_durably(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Writer(str(tmp_path))
    entry = Path(entry_path(writer.path, 1))
    entry.write_text('{"add":{"pa')
    calls = SystemCalls(monkeypatch, entry.parent)
    assert repair(writer.path) is not None
    assert calls.events == [
        f"rename {entry.name} {entry.name}.torn",
        "sync directory .",
    ]


def test_what_was_noted_of_a_first_entry_that_went_is_not_the_new_ones(
    tmp_path: Path,
) -> None:
    writer = Writer(str(tmp_path))
    noted = noted_beside(writer.path, 0)
    os.unlink(entry_path(writer.path, 0))
    create_table(str(tmp_path), writer.topic, TOPIC_ID, 2)
    assert [one.name for one in noted if one.exists()] == []


def test_a_table_that_is_no_topics_is_in_the_way_until_it_is_moved(tmp_path):
    path = tmp_path / "orders"
    rows = deltalake.DeltaTable(Writer(str(tmp_path), "a").path).to_pyarrow_table()
    deltalake.write_deltalake(str(path), rows)
    said = f"{path} holds a table that is no topic's: move it away, and .* next round"
    with pytest.raises(CommitRefused, match=said):
        create_table(str(tmp_path), "orders", TOPIC_ID, 1)
    path.rename(tmp_path / "theirs")
    assert create_table(str(tmp_path), "orders", TOPIC_ID, 1) == str(path)


def test_what_its_owner_made_of_a_topics_table_is_not_in_the_way(tmp_path):
    """Moved away, it would come again from the log, with what he had deleted."""
    writer = Writer(str(tmp_path))
    writer.add(0, 0, 10)
    theirs = pa.schema([("a", pa.int32())])
    deltalake.DeltaTable.create(writer.path, theirs, mode="overwrite")
    with pytest.raises(CommitRefused, match=r"orders was replaced .* RESTORE it to"):
        create_table(str(tmp_path), writer.topic, TOPIC_ID, 2)
    deltalake.DeltaTable(writer.path).restore(1)
    assert create_table(str(tmp_path), writer.topic, TOPIC_ID, 2) == writer.path
