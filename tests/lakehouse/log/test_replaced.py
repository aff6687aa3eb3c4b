"""A table that its owner replaced is known for its topic's, and since which version."""

import errno
import os
import shutil
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from lakehouse.log import replaced
from lakehouse.log.delta_log import Snapshot, entry_path, load
from lakehouse.log.replaced import why_replaced
from tests.support.tables import TOPIC_ID, Writer

OTHER = "f" * 32
END = ", and delete again what was deleted since"


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    writer = Writer(str(tmp_path))
    writer.add(0, 0, 10)
    return writer


def replace(path: str) -> None:
    theirs = pa.schema([("a", pa.int32())])
    deltalake.DeltaTable.create(path, theirs, mode="overwrite")


def alter(path: str) -> None:
    said = {"lakelog.other": "1"}
    deltalake.DeltaTable(path).alter.set_table_properties(said, False)


def said(writer: Writer) -> str:
    why = why_replaced(load(writer.path), TOPIC_ID)
    assert why is not None
    return why


def test_what_was_before_is_brought_back_with_its_deletes(writer: Writer) -> None:
    alter(writer.path)
    deltalake.DeltaTable(writer.path).delete("offset = 3")
    replace(writer.path)
    alter(writer.path)
    assert f"{writer.path} was replaced in version 4 by its owner" in said(writer)
    assert said(writer).endswith(f": RESTORE it to version 3{END}")
    deltalake.DeltaTable(writer.path).restore(3)
    writer.add(0, 10, 12)
    rows = deltalake.DeltaTable(writer.path).to_pyarrow_table()
    assert sorted(rows["offset"].to_pylist()) == [0, 1, 2, *range(4, 12)]


def test_so_it_is_of_one_that_names_another_topic_now(
    writer: Writer, tmp_path: Path
) -> None:
    other = Writer(str(tmp_path), "other", OTHER)
    shutil.copy(entry_path(other.path, 0), entry_path(writer.path, 2))
    assert said(writer).endswith(f": RESTORE it to version 1{END}")


def test_where_the_log_does_not_tell_the_version_none_is_named(writer: Writer) -> None:
    replace(writer.path)
    deltalake.DeltaTable(writer.path).create_checkpoint()
    for version in range(2):
        os.unlink(entry_path(writer.path, version))
    assert f"{writer.path} was replaced by its owner" in said(writer)
    assert said(writer).endswith(f": RESTORE it to the version before{END}")


def test_a_version_is_named_if_its_state_can_be_made(writer: Writer) -> None:
    """Of a log that was cleaned: the topic's commits tell that it was there still."""
    writer.add(0, 10, 20)
    replace(writer.path)
    deltalake.DeltaTable(writer.path).create_checkpoint()
    assert said(writer).endswith(f": RESTORE it to version 2{END}")
    os.unlink(entry_path(writer.path, 0))
    os.unlink(entry_path(writer.path, 1))
    assert said(writer).endswith(f": RESTORE it to the version before{END}")


def test_of_one_whose_entries_cannot_be_read_none_is_named(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load_version(path: str, version: int) -> Snapshot:
        raise OSError(errno.EIO, "Input/output error", entry_path(path, version))

    replace(writer.path)
    assert said(writer).endswith(f": RESTORE it to version 1{END}")
    monkeypatch.setattr(replaced, "load_version", load_version)
    assert said(writer).endswith(f": RESTORE it to the version before{END}")


def test_behind_a_checkpoint_the_topics_own_commits_tell_the_version(
    writer: Writer,
) -> None:
    writer.add(0, 10, 20)
    deltalake.DeltaTable(writer.path).create_checkpoint()
    os.unlink(entry_path(writer.path, 0))
    os.unlink(entry_path(writer.path, 1))
    replace(writer.path)
    assert said(writer).endswith(f": RESTORE it to version 2{END}")
    deltalake.DeltaTable(writer.path).restore(2)
    assert load(writer.path).topic_id == TOPIC_ID


def test_what_never_was_a_topics_was_not_replaced(writer: Writer) -> None:
    assert why_replaced(load(writer.path), OTHER) is None
