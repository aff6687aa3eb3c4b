"""What an owner's entry names is on the disk before that entry is."""

import errno
import json
import os
import shutil
from pathlib import Path
from uuid import UUID

import deltalake
import pytest

from lakehouse.durable import SyncFailed, sync_file
from lakehouse.log.delta_log import entry_path, load, read_entry
from lakehouse.log.named_files import named, sync_checkpoint, sync_named
from lakehouse.log.next_entry import sync_entries
from tests.support.bitmaps import delete_rows, stored
from tests.support.syscalls import SystemCalls, in_order, refuse_syncs
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


def adding(*paths: str) -> bytes:
    return an_entry(*({"add": {"path": path}} for path in paths))


def test_what_cannot_be_opened_is_passed_over_and_the_rest_is_synced_once(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what Hadoop noted of its bytes: empty, its readers would refuse the file."""
    root, real = Path(writer.path), os.open
    deep = root / "new" / "deep"
    deep.mkdir(parents=True)
    for name in ("b.parquet", ".b.parquet.crc", "theirs.parquet"):
        (deep / name).write_bytes(b"x")
    os.mkfifo(root / "a.parquet")

    def refuse(path: str, *how: int, **more: int) -> int:
        if str(path).endswith("theirs.parquet"):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return real(path, *how, **more)

    monkeypatch.setattr(os, "open", refuse)
    calls, done = SystemCalls(monkeypatch, root), set[str]()
    files = "a.parquet", "gone.parquet", "file:///elsewhere/x"
    files = *files, "new/deep/theirs.parquet", "new/deep/b.parquet"
    sync_named(writer.path, adding(*files), done)
    assert calls.events == [
        "sync new/deep/b.parquet", "sync new/deep/.b.parquet.crc",
        "sync directory new/deep", "sync directory new", "sync directory .",
    ]  # fmt: skip
    sync_named(writer.path, adding("new/deep/b.parquet"), done)
    assert len(calls.events) == 5


@pytest.mark.parametrize(
    "odd", ["a%00b", "b.parquet/c", "x" * 256, "y" * 251, "round"], ids=lambda s: s[:9]
)
def test_what_can_have_no_file_stops_nothing(writer: Writer, odd: str) -> None:
    """Of a name of 251 letters the file is there, and its sums cannot be."""
    root = Path(writer.path)
    (root / "b.parquet").write_bytes(b"x")
    (root / ("y" * 251)).write_bytes(b"x")
    (root / "round").symlink_to("round")
    done = set[str]()
    sync_named(writer.path, adding(odd, "b.parquet"), done)
    assert str(root / "b.parquet") in done


def test_a_directory_that_goes_meanwhile_ends_no_sync(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A VACUUM takes it between its files and itself; the entry is to be synced."""
    root, real = Path(writer.path), os.fsync
    entry = Path(entry_path(writer.path, 2))
    (root / "new").mkdir()
    (root / "new" / "b.parquet").write_bytes(b"x")
    table = load(writer.path)
    entry.write_bytes(adding("new/b.parquet"))

    def vacuum(descriptor: int) -> None:
        real(descriptor)
        shutil.rmtree(root / "new", ignore_errors=True)

    monkeypatch.setattr(os, "fsync", vacuum)
    calls = SystemCalls(monkeypatch, root)
    sync_entries(table, 2)
    wanted = ["sync new/b.parquet", "sync directory .", f"sync _delta_log/{entry.name}"]
    assert in_order(calls.events, wanted)


def test_an_owners_checkpoint_is_synced_before_what_is_below_is_gone_for_good(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """His tool cleans the log behind it, and our next sync of the log makes that last:
    though nothing but a checkpoint came since our last commit."""
    deltalake.DeltaTable(writer.path).create_checkpoint()
    calls = SystemCalls(monkeypatch, Path(writer.path) / "_delta_log")
    writer.add(0, 10, 20)
    made = f"sync {1:020d}.checkpoint.parquet"
    wanted = [made, "sync directory .", "sync _last_checkpoint", "sync directory ."]
    assert in_order(calls.events, wanted)
    first = next(at for at, one in enumerate(calls.events) if "directory" in one)
    assert calls.events.index(made) < first
    calls.clear()
    writer.add(0, 20, 30)
    assert calls.of("checkpoint") == []


def test_a_checkpoints_sidecars_are_synced_with_it(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Path(writer.path) / "_delta_log"
    name = f"{1:020d}.checkpoint.{UUID(int=7)}.json"
    (log / name).write_bytes(an_entry({"sidecar": {"path": "s.parquet"}}))
    (log / "_sidecars").mkdir()
    sums = f".{name}.crc", "_sidecars/.s.parquet.crc", "._last_checkpoint.crc"
    for path in ("_sidecars/s.parquet", "_last_checkpoint", *sums):
        (log / path).write_bytes(b"{}")
    calls = SystemCalls(monkeypatch, log)
    sync_checkpoint(writer.path)
    assert calls.events == [
        f"sync {name}", f"sync .{name}.crc",
        "sync _sidecars/s.parquet", "sync _sidecars/.s.parquet.crc",
        "sync directory _sidecars", "sync directory .",
        "sync _last_checkpoint", "sync ._last_checkpoint.crc",
    ]  # fmt: skip


def test_a_checkpoint_without_a_hint_is_synced_as_well(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    deltalake.DeltaTable(writer.path).create_checkpoint()
    log = Path(writer.path) / "_delta_log"
    (log / "_last_checkpoint").unlink()
    calls = SystemCalls(monkeypatch, log)
    sync_checkpoint(writer.path)
    assert calls.events == [
        f"sync {1:020d}.checkpoint.parquet", "sync directory ."
    ]  # fmt: skip


def test_a_checkpoint_whose_sync_failed_is_synced_at_the_next_look(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    deltalake.DeltaTable(writer.path).create_checkpoint()
    path = Path(writer.path) / "_delta_log" / f"{1:020d}.checkpoint.parquet"
    inode = path.stat().st_ino
    refuse_syncs(monkeypatch, 2)
    with pytest.raises(SyncFailed):
        sync_checkpoint(writer.path)
    sync_checkpoint(writer.path)
    assert path.stat().st_ino != inode, "it is written anew"


def test_his_statement_and_his_checkpoint_are_synced_before_the_log_is(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    deltalake.DeltaTable(writer.path).delete("offset = 4")
    deltalake.DeltaTable(writer.path).create_checkpoint()
    log = Path(writer.path) / "_delta_log"
    (log / f".{2:020d}.json.crc").write_bytes(b"crc")
    calls = SystemCalls(monkeypatch, log)
    writer.add(0, 10, 20)
    first = next(at for at, one in enumerate(calls.events) if "directory" in one)
    synced = {f".{2:020d}.json.crc", f"{2:020d}.json", f"{2:020d}.checkpoint.parquet"}
    assert {f"sync {name}" for name in synced} <= set(calls.events[:first])


def test_behind_a_file_that_the_disk_refuses_nothing_of_ours_is_committed(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    deltalake.DeltaTable(writer.path).delete("offset = 4")
    (file,) = load(writer.path).files
    calls, real = SystemCalls(monkeypatch, Path(writer.path)), os.fsync

    def fsync(descriptor: int) -> None:
        if file in os.readlink(f"/proc/self/fd/{descriptor}"):
            raise OSError(errno.EIO, "the disk refused")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(SyncFailed):
        writer.add(0, 10, 20)
    assert load(writer.path).version == 2
    assert calls.of(f"sync _delta_log/{2:020d}.json") == []


def test_a_sync_that_failed_is_told_though_it_says_that_nothing_is_there(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system over a network says so of one that is opened and went: its bytes
    may be lost, and who finds nothing under a name has lost none."""
    (Path(writer.path) / "b.parquet").write_bytes(b"rows")
    sync_named(writer.path, adding("gone.parquet"), set(), sync_file)

    def fsync(descriptor: int) -> None:
        raise OSError(errno.ENOENT, "No such file or directory")

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(SyncFailed):
        sync_named(writer.path, adding("b.parquet"), set(), sync_file)


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
    sync_named(writer.path, adding(path.name), set())
    found = path.stat()
    assert (found.st_ino in synced, found.st_ino in refused) == (True, False)
    assert (path.read_bytes(), found.st_mode & 0o777) == (b"rows", 0o640)
