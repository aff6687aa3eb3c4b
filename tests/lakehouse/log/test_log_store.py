"""An entry appears whole or not at all, and never in the place of another."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from lakehouse.durable import SyncFailed
from lakehouse.errors import CommitRefused
from lakehouse.log.delta_log import entry_path, read_entry
from lakehouse.log.log_store import drop_left, put_if_absent, sweep
from tests.support.syscalls import SystemCalls


@pytest.fixture
def path(tmp_path: Path) -> str:
    (tmp_path / "_delta_log").mkdir()
    return str(tmp_path)


def left(path: str) -> list[str]:
    return sorted(os.listdir(os.path.join(path, "_delta_log")))


def test_an_entry_is_there_once_and_nothing_else(path: str) -> None:
    assert put_if_absent(path, 7, b"mine")
    assert not put_if_absent(path, 7, b"theirs")
    assert read_entry(path, 7) == b"mine"
    assert left(path) == ["00000000000000000007.json"]


def test_others_may_read_an_entry_as_any_file(path: str) -> None:
    """An owner's Spark runs as somebody else."""
    put_if_absent(path, 0, b"mine")
    plain = Path(path) / "plain"
    plain.touch()
    assert Path(entry_path(path, 0)).stat().st_mode == plain.stat().st_mode


def test_what_waits_for_its_name_is_whole_and_no_entry(path: str) -> None:
    seen: list[bytes] = []

    def look() -> None:
        [name] = left(path)
        assert not name[0].isdigit()
        seen.append((Path(path) / "_delta_log" / name).read_bytes())

    assert put_if_absent(path, 0, b"mine", on_written=look)
    assert seen == [b"mine"]


def test_of_two_that_wait_for_one_name_the_first_gets_it(path: str) -> None:
    won: list[bool] = []

    def other() -> None:
        won.append(put_if_absent(path, 3, b"theirs"))

    assert not put_if_absent(path, 3, b"mine", on_written=other)
    assert won == [True]
    assert read_entry(path, 3) == b"theirs"
    assert left(path) == ["00000000000000000003.json"]


def test_a_link_that_was_made_and_then_refused_is_ours(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A network file system that did not hear the answer asks again."""
    link = os.link

    def twice(source: str, target: str) -> None:
        link(source, target)
        link(source, target)

    monkeypatch.setattr(os, "link", twice)
    assert put_if_absent(path, 0, b"mine")
    assert read_entry(path, 0) == b"mine"


def failing(of_directories: bool, times: int) -> Callable[[int], None]:
    """An fsync that fails so often, of directories or of files."""
    sync, failures = os.fsync, [None] * times

    def fsync(descriptor: int) -> None:
        name = os.readlink(f"/proc/self/fd/{descriptor}")
        if os.path.isdir(name) == of_directories and failures:
            failures.pop()
            raise OSError(errno.EIO, "the disk refused")
        sync(descriptor)

    return fsync


def test_an_entry_whose_bytes_are_not_on_the_disk_is_never_seen(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", failing(of_directories=False, times=1))
    with pytest.raises(SyncFailed):
        put_if_absent(path, 0, b"mine")
    assert left(path) == []


def test_a_name_whose_sync_failed_is_made_again(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process sees it, and its sync of the directory would succeed."""
    made: list[int] = []
    monkeypatch.setattr(os, "fsync", failing(of_directories=True, times=1))
    entry = Path(entry_path(path, 0))
    assert put_if_absent(
        path, 0, b"mine", on_linked=lambda: made.append(entry.stat().st_ino)
    )
    assert entry.read_bytes() == b"mine"
    assert entry.stat().st_ino not in made


def test_a_disk_that_refuses_twice_is_believed(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", failing(of_directories=True, times=2))
    with pytest.raises(SyncFailed):
        put_if_absent(path, 0, b"mine")


def test_what_killed_writers_left_is_swept(path: str) -> None:
    log = Path(path) / "_delta_log"
    put_if_absent(path, 0, b"mine")
    for name in (".entry-00000000000000000001-ab.tmp", ".theirs.tmp", "_commits.tmp"):
        (log / name).touch()
    assert sweep(path) == 1
    assert left(path) == [".theirs.tmp", "00000000000000000000.json", "_commits.tmp"]


def test_who_is_swept_at_work_is_refused_and_nothing_is_there(path: str) -> None:
    with pytest.raises(CommitRefused):
        put_if_absent(path, 0, b"mine", on_written=lambda: sweep(path) and None)
    assert left(path) == []


def test_checksums_go_where_their_entry_went_and_stay_where_it_is(path: str) -> None:
    log = Path(path) / "_delta_log"
    names = [f".{7:020d}.crc.crc", f".{7:020d}.json.crc", f"{7:020d}.crc"]
    for name in names:
        (log / name).touch()
    (log / f"{8:020d}.crc").mkdir()
    put_if_absent(path, 7, b"theirs")
    drop_left(path, 7)
    assert left(path) == [*names, f"{7:020d}.json", f"{8:020d}.crc"]
    os.unlink(entry_path(path, 7))
    drop_left(path, 7)
    drop_left(path, 8)  # what is no file is none
    assert left(path) == [f"{8:020d}.crc"]


def compacted(first: int, last: int) -> list[str]:
    """The names of a log compaction file, and of Hadoop's checksum of it."""
    name = f"{first:020d}.{last:020d}.compacted.json"
    return [name, f".{name}.crc"]


def test_log_compactions_go_that_reach_to_an_entry_that_went(path: str) -> None:
    log = Path(path) / "_delta_log"
    stays = [*compacted(5, 6), *compacted(3, 3), f".{compacted(5, 7)[0]}"]
    goes = [*compacted(5, 7), *compacted(7, 7), *compacted(6, 9), compacted(8, 9)[1]]
    for name in stays + goes:
        (log / name).touch()
    (log / compacted(7, 8)[0]).mkdir()
    put_if_absent(path, 7, b"theirs")
    assert not drop_left(path, 7)
    assert {*stays, *goes} < {*left(path)}
    os.unlink(entry_path(path, 7))
    assert drop_left(path, 7)
    assert left(path) == sorted([*stays, compacted(7, 8)[0]])


def test_checksums_beyond_the_newest_version_are_swept(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where several entries were taken away no reader opens the table for the last."""
    log = Path(path) / "_delta_log"
    put_if_absent(path, 7, b"mine")
    stays = [f".{7:020d}.json.crc", f"{3:020d}.crc", f"{7:020d}.crc", *compacted(3, 7)]
    goes = [f"{9:020d}.crc", f".{8:020d}.json.crc", f".{11:020d}.crc.crc"]
    goes += [*compacted(6, 8), *compacted(9, 10)]
    for name in stays + goes:
        (log / name).touch()
    calls, listed, listings = SystemCalls(monkeypatch, log), os.listdir, list[str]()

    def list_directory(at: str) -> list[str]:
        listings.append(at)
        return listed(at)

    with monkeypatch.context() as patch:
        patch.setattr(os, "listdir", list_directory)
        assert sweep(path) == 0
    assert listings == [str(log)]
    assert left(path) == sorted([*stays, f"{7:020d}.json"])
    assert calls.events[-1] == "sync directory ."
    assert len(calls.of("remove")) == len(goes)


@pytest.mark.parametrize(
    ("suffix", "stays"),
    [
        ("checkpoint.parquet", True),  # its entry may be gone
        ("json", True),
        ("json.torn", False),
        ("checkpoint.parquet.damaged", False),
    ],
)
def test_a_checksum_of_a_version_that_is_there_stays(
    path: str, suffix: str, stays: bool
) -> None:
    log = Path(path) / "_delta_log"
    put_if_absent(path, 7, b"mine")
    for name in (f"{9:020d}.{suffix}", f"{9:020d}.crc"):
        (log / name).touch()
    sweep(path)
    assert (log / f"{9:020d}.crc").exists() is stays


def test_a_checksum_stays_whose_entry_came_while_the_log_was_listed(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry, log = f"{9:020d}.json", Path(path) / "_delta_log"
    put_if_absent(path, 9, b"theirs")
    noted = [log / name for name in (f"{9:020d}.crc", *compacted(8, 9))]
    for one in noted:
        one.touch()
    listed = os.listdir
    monkeypatch.setattr(os, "listdir", lambda at: sorted({*listed(at)} - {entry}))
    sweep(path)
    assert all(one.exists() for one in noted)
