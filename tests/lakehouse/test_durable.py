"""A commit is durable in the order that a power cut needs: data, entry, directory."""

import ctypes
import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from lakehouse import durable
from lakehouse.durable import (
    PIECE_BYTES,
    SyncFailed,
    put_in_place,
    sync_file,
    sync_files,
    sync_or_write_anew,
)
from lakehouse.log.commit import commit_files, create_table, remove_files
from lakehouse.log.delta_log import load
from lakehouse.regular import NotAFile
from tests.support.syscalls import SystemCalls, refuse_syncs
from tests.support.tables import TOPIC_ID, Writer, rows, write_file

ENTRY = "_delta_log/00000000000000000001.json"


def test_files_are_synced_and_every_directory_on_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_bytes(b"text")
    calls = SystemCalls(monkeypatch, tmp_path)
    sync_files(str(tmp_path), ["a/b/file"])
    assert calls.events == [
        "sync a/b/file", "sync directory a/b", "sync directory a", "sync directory .",
    ]  # fmt: skip


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(NotAFile):
        sync_file(str(tmp_path / "fifo"))


def test_a_commit_syncs_its_files_then_its_entry_then_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(create_table(str(tmp_path), "orders", TOPIC_ID, 2))
    file = write_file(str(path), "some", rows(0, range(10)))
    calls = SystemCalls(monkeypatch, path)
    there: list[list[str]] = []
    commit_files(
        str(path), TOPIC_ID, 1, {0: (0, 10)}, [file],
        on_committed=lambda: there.append(list(calls.events)),
    )  # fmt: skip
    before_it_is_seen = [
        f"sync {file.path}", "sync directory partition=0", "sync directory .",
        "sync _delta_log/00000000000000000000.json", "sync directory _delta_log",
    ]  # fmt: skip
    synced = [one for one in there[0] if one.startswith("sync")]
    assert synced[:-1] == before_it_is_seen
    assert synced[-1].startswith("sync _delta_log/.entry-00000000000000000001-")
    after = [e for e in calls.events[len(there[0]) :] if e.startswith("sync")]
    assert after == ["sync directory _delta_log"]
    assert (path / ENTRY).exists()


def test_retention_syncs_its_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Writer(str(tmp_path))
    writer.add(0, 0, 10)
    (file,) = load(writer.path).files.values()
    calls = SystemCalls(monkeypatch, Path(writer.path))
    gone = [(file.path, file.partition, file.size)]
    version = remove_files(
        writer.path, TOPIC_ID, gone, now_ms=1, log_starts={0: 10}
    ).version
    entry = f"_delta_log/{version:020d}.json"
    synced = [one for one in calls.events if one.startswith("sync")]
    assert synced[-2].startswith(f"sync _delta_log/.entry-{version:020d}-")
    assert synced[-1] == "sync directory _delta_log"
    assert os.path.exists(os.path.join(writer.path, entry))


def test_an_entry_whose_sync_failed_is_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next sync of the same file would say yes, the broker's too, which released
    the records then: what the disk refused was gone."""
    path = Path(create_table(str(tmp_path), "orders", TOPIC_ID, 2))
    file = write_file(str(path), "some", rows(0, range(10)))
    refused: list[int] = []
    synced: list[int] = []

    def fsync(descriptor: int) -> None:
        inode = os.fstat(descriptor).st_ino
        if not refused and (path / ENTRY).exists():
            refused.append(inode)
            raise OSError(errno.EIO, "the disk refused")
        synced.append(inode)

    monkeypatch.setattr(os, "fsync", fsync)
    commit_files(str(path), TOPIC_ID, 1, {0: (0, 10)}, [file])
    inode = (path / ENTRY).stat().st_ino
    assert inode in synced
    assert inode not in refused
    assert synced[-1] == (path / "_delta_log").stat().st_ino
    assert load(str(path)).transactions[f"{TOPIC_ID}/0"] == 10
    assert sorted(p.name for p in (path / "_delta_log").glob("*")) == [
        f"{version:020d}.json" for version in (0, 1)
    ]


def test_what_could_not_be_written_anew_is_not_believed_at_its_next_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which says yes, whatever the disk has of it."""
    path = tmp_path / "theirs"
    path.write_bytes(b"rows")
    inode = path.stat().st_ino
    refuse_syncs(monkeypatch, 2)
    with pytest.raises(SyncFailed):
        sync_or_write_anew(str(path))
    assert path.stat().st_ino == inode
    sync_or_write_anew(str(path))
    again = path.stat().st_ino
    assert (again != inode, path.read_bytes()) == (True, b"rows")
    sync_or_write_anew(str(path))
    assert path.stat().st_ino == again


def test_a_copy_that_may_not_be_made_is_a_sync_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not a file that could not be opened, of which nothing was lost."""
    path = tmp_path / "theirs"
    path.write_bytes(b"rows")

    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    def fsync(descriptor: int) -> None:
        raise OSError(errno.EIO, "the disk refused")

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(shutil, "copy", refuse)
    with pytest.raises(SyncFailed):
        sync_or_write_anew(str(path))


def test_an_entry_that_cannot_be_written_anew_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(create_table(str(tmp_path), "orders", TOPIC_ID, 2))
    file = write_file(str(path), "some", rows(0, range(10)))
    real = os.fsync

    def fsync(descriptor: int) -> None:
        if (path / ENTRY).exists():
            raise OSError(errno.EIO, "the disk refused")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(SyncFailed):
        commit_files(str(path), TOPIC_ID, 1, {0: (0, 10)}, [file])
    assert not list((path / "_delta_log").glob("*.anew"))
    assert (path / ENTRY).exists()


def test_a_file_is_in_the_place_of_another_or_all_is_as_it_was(tmp_path: Path) -> None:
    place = tmp_path / "file"
    put_in_place(str(place), lambda written: Path(written).write_text("one"))
    assert place.read_text() == "one"

    def full(written: str) -> None:
        Path(written).write_text("tw")
        raise OSError(errno.ENOSPC, "no space left")

    with pytest.raises(OSError, match="no space left"):
        put_in_place(str(place), full)
    assert (place.read_text(), os.listdir(tmp_path)) == ("one", ["file"])


def test_a_file_comes_into_its_place_synced_and_its_directory_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = SystemCalls(monkeypatch, tmp_path)
    put_in_place(str(tmp_path / "a"), lambda to: Path(to).write_text("one"))
    assert calls.of("sync", "rename") == [
        "sync .a.tmp", "rename .a.tmp a", "sync directory .",
    ]  # fmt: skip


def test_a_file_whose_directory_is_not_synced_is_in_the_place_already(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "file"
    place.write_text("one")

    def refuse(path: str) -> None:
        raise SyncFailed(errno.EIO, "the disk refused", path)

    monkeypatch.setattr(durable, "sync_directory", refuse)
    with pytest.raises(SyncFailed):
        put_in_place(str(place), lambda written: Path(written).write_text("two"))
    assert place.read_text() == "two"


def test_a_large_file_goes_to_the_disk_in_pieces_before_its_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "large"
    path.write_bytes(bytes(2 * PIECE_BYTES + 5))
    calls = SystemCalls(monkeypatch, tmp_path)
    real = durable._sync_file_range

    def recorded(descriptor: int, at: int, length: int, flags: int) -> int:
        calls.events.append(f"pieces {at} {length}")
        return int(real(descriptor, at, length, flags))

    monkeypatch.setattr(durable, "_sync_file_range", recorded)
    sync_file(str(path))
    assert calls.events == [
        f"pieces 0 {PIECE_BYTES}", f"pieces {PIECE_BYTES} {PIECE_BYTES}",
        f"pieces {2 * PIECE_BYTES} 5", "sync large",
    ]  # fmt: skip


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_what_a_piece_is_told_is_a_failed_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    """The kernel tells a descriptor of a failed write once: the fsync would say yes."""
    path = tmp_path / "file"
    path.write_bytes(b"text")
    monkeypatch.setattr(durable, "_sync_file_range", _failing(error))
    with pytest.raises(SyncFailed):
        sync_file(str(path))


def test_a_system_without_pieces_syncs_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"text")
    calls = SystemCalls(monkeypatch, tmp_path)
    for absent in (None, _failing(errno.ENOSYS), _failing(errno.EPERM)):
        monkeypatch.setattr(durable, "_sync_file_range", absent)
        sync_file(str(path))
    assert calls.events == ["sync file"] * 3


def _failing(error: int) -> Callable[..., int]:
    def failing(*_: int) -> int:
        ctypes.set_errno(error)
        return -1

    return failing
