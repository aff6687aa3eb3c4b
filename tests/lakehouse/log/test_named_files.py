"""What an owner's entry names is on the disk before that entry is."""

import errno
import json
import os
from pathlib import Path
from uuid import UUID

import deltalake
import pytest

from lakehouse.log.delta_log import load, read_entry
from lakehouse.log.named_files import named, sync_named
from tests.support.bitmaps import delete_rows, stored
from tests.support.syscalls import SystemCalls
from tests.support.tables import Writer


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    writer = Writer(str(tmp_path))
    writer.add(0, 0, 10)
    return writer


def last_entry(writer: Writer) -> bytes:
    return read_entry(writer.path, load(writer.path).version)


def an_entry(*actions: object) -> bytes:
    return b"".join(json.dumps(action).encode() + b"\n" for action in actions)


def test_ours_name_nothing_and_an_owners_what_they_add(writer: Writer) -> None:
    assert named(writer.path, last_entry(writer)) == []
    deltalake.DeltaTable(writer.path).delete("offset = 4")
    (file,) = load(writer.path).files
    assert named(writer.path, last_entry(writer)) == [os.path.join(writer.path, file)]


def test_deletion_vectors_are_named_too(writer: Writer) -> None:
    (file,), uuid = load(writer.path).files, UUID(int=7)
    delete_rows(writer, {file: stored(writer.path, [3], uuid, "ab")})
    assert named(writer.path, last_entry(writer)) == [
        os.path.join(writer.path, file),
        os.path.join(writer.path, "ab", f"deletion_vector_{uuid}.bin"),
    ]


def test_change_data_are_named_and_what_lies_elsewhere_or_is_odd_is_not(
    tmp_path: Path,
) -> None:
    root = str(tmp_path / "table")
    entry = an_entry(
        {"add": {"path": "partition%3D0/a%20b.parquet"}},
        {"remove": {"path": "gone.parquet"}},
        {"add": {"path": f"file://{root}/here.parquet"}},
        {"add": {"path": "../other/x.parquet"}},
        {"add": None, "commitInfo": {"operation": "DELETE"}},
        {"add": {"size": 3}},
        {"add": {"path": 7}},
        {"add": {"path": "c.parquet", "deletionVector": {"storageType": "x"}}},
        {"cdc": {"path": "_change_data/d.parquet"}},
        ["add"],
    )
    wanted = (
        "partition=0/a b.parquet", "here.parquet", "c.parquet", "_change_data/d.parquet"
    )  # fmt: skip
    assert named(root, entry) == [os.path.join(root, name) for name in wanted]
    for torn in (b"", entry[:20], b"\xff\n"):
        assert named(root, torn) == []


def test_what_cannot_be_opened_is_passed_over_and_the_rest_is_synced(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Path(writer.path)
    (root / "new" / "deep").mkdir(parents=True)
    (root / "new" / "deep" / "b.parquet").write_bytes(b"x")
    os.mkfifo(root / "a.parquet")
    calls = SystemCalls(monkeypatch, root)
    files = "a.parquet", "gone.parquet", "file:///elsewhere/x", "new/deep/b.parquet"
    sync_named(writer.path, an_entry(*({"add": {"path": name}} for name in files)))
    assert calls.events == [
        "sync new/deep/b.parquet", "sync directory new/deep", "sync directory new",
        "sync directory .",
    ]  # fmt: skip


def test_a_file_whose_sync_failed_is_written_anew(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its next sync would say yes, whatever of it the disk has."""
    path = Path(writer.path) / "theirs.parquet"
    path.write_bytes(b"rows")
    path.chmod(0o640)
    refused, synced, real = list[int](), list[int](), os.fsync

    def fsync(descriptor: int) -> None:
        if not refused:
            refused.append(os.fstat(descriptor).st_ino)
            raise OSError(errno.EIO, "the disk refused")
        synced.append(os.fstat(descriptor).st_ino)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    sync_named(writer.path, an_entry({"add": {"path": path.name}}))
    found = path.stat()
    assert (found.st_ino in synced, found.st_ino in refused) == (True, False)
    assert (path.read_bytes(), found.st_mode & 0o777) == (b"rows", 0o640)
