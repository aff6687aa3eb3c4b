"""Of which partition a file is, its directory says, or the log."""

import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.erasing.partitions import by_directory, partitions_of
from lakehouse.in_flight import hidden
from lakehouse.log.actions import NO_PARTITION
from lakehouse.log.delta_log import LOG_DIRECTORY, entry_path, load
from tests.support.tables import Writer


@pytest.mark.parametrize(
    ("path", "partition"),
    [
        ("partition=12/a.parquet", 12),
        ("_change_data/partition=3/cdc-1.parquet", 3),
        ("partition=__HIVE_DEFAULT_PARTITION__/a.parquet", NO_PARTITION),
        ("partition=-1/a.parquet", -1),
        ("_change_data/partition=-2147483648/a.parquet", -(1 << 31)),
        ("partition=007/a.parquet", None),
        (hidden("partition=4/a.parquet"), 4),
        ("xY/part-1.parquet", None),
        ("part-1.parquet", None),
        ("_mine/partition=3/a.parquet", None),
        ("partition=a/b.parquet", None),
        ("partition=²/b.parquet", None),
    ],
)
def test_a_directory_says_it_where_writers_put_files(
    path: str, partition: int | None
) -> None:
    assert by_directory(path) == partition


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    made = Writer(str(tmp_path))
    made.add(1, 0, 20)
    return made


def said(path: str, partition: object) -> dict[str, object]:
    return {"path": path, "partitionValues": {"partition": partition}, "size": 1,
            "modificationTime": 1, "dataChange": True}  # fmt: skip


def test_the_log_says_it_of_files_that_lie_elsewhere(writer: Writer) -> None:
    actions = [
        {"add": said("xY/live.parquet", "1")},
        {"add": said("xY/gone%20by.parquet", "2")},
        {"add": said("xY/nobodys.parquet", None)},
        {"cdc": said("_change_data/xY/cdc.parquet", "3")},
        {"add": said("xY/ours.parquet", "4") | {"partitionValues": {"Partition": "4"}}},
        {"add": said("xY/text.parquet", "1_0")},
        {"add": {"path": "xY/odd.parquet", "partitionValues": 4}},
    ]
    remove = {"path": "xY/gone%20by.parquet", "deletionTimestamp": 1}
    table = load(writer.path)
    version = table.version
    Path(entry_path(writer.path, version + 1)).write_text(
        "\n".join(map(json.dumps, actions[:6])) + '\n{"add":{"partitionValues":\n'
    )
    aside = Path(entry_path(writer.path, version + 9))
    aside.write_text(json.dumps({"remove": remove}) + "\n" + json.dumps(actions[6]))
    known = {"xY/live.parquet": 1, "xY/gone by.parquet": 2,
             "xY/nobodys.parquet": NO_PARTITION,
             "_change_data/xY/cdc.parquet": 3, "xY/ours.parquet": 4}  # fmt: skip
    unknown = dict.fromkeys(["xY/odd.parquet", "xY/text.parquet", "xY/a.parquet"])
    assert partitions_of(table, known | unknown) == known | unknown


def test_a_checkpoint_says_it_too(writer: Writer) -> None:
    values = pa.map_(pa.string(), pa.string())
    kind = pa.struct([("path", pa.string()), ("partitionValues", values)])
    removes = [{"path": "xY/a.parquet", "partitionValues": [("partition", "5")]}, None]
    pq.write_table(
        pa.table({"remove": pa.array(removes, kind)}),
        os.path.join(writer.path, LOG_DIRECTORY, f"{0:020d}.checkpoint.parquet"),
    )
    found = partitions_of(load(writer.path), ["xY/a.parquet", "partition=1/b.parquet"])
    assert found == {"xY/a.parquet": 5, "partition=1/b.parquet": 1}


def test_the_log_may_name_a_file_by_where_it_lies(writer: Writer) -> None:
    """As a clone does that its owner put back."""
    table = load(writer.path)
    add = said(f"file://{writer.path}/xY/of%20theirs.parquet", "7")
    entry = Path(entry_path(writer.path, table.version + 1))
    entry.write_text(json.dumps({"add": add}))
    path = "xY/of theirs.parquet"
    assert partitions_of(table, [path]) == {path: 7}
