"""What a table is said to hold was read from the disk, and synced before it is said."""

import errno
import os
from pathlib import Path
from uuid import UUID

import deltalake
import pytest
from structlog.testing import capture_logs

from broker.lake import verify
from broker.lake.verify import Verifier
from lakehouse.log.commit import remove_files
from lakehouse.log.delta_log import entry_path, load
from lakehouse.log.named_files import _hints
from lakehouse.properties import CHANGE_FEED
from tests.support.bitmaps import delete_rows, inline, stored
from tests.support.cloned_back import clone_back
from tests.support.syscalls import SystemCalls, in_order, refuse_syncs_of
from tests.support.tables import TOPIC_ID, Writer, rows


def test_a_verified_end_is_durable_file_entry_and_directories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Writer(str(tmp_path))
    writer.add(0, 0, 10)
    table = os.path.relpath(writer.path, tmp_path)
    verifier = Verifier(TOPIC_ID, writer.path)
    calls = SystemCalls(monkeypatch, tmp_path)
    assert verifier.ends() == {0: 10}
    log = f"{table}/_delta_log"
    whole = [f"sync directory {table}/partition=0", f"sync directory {table}",
             f"sync directory {log}", f"sync directory {table}",
             "sync directory ."]  # fmt: skip
    assert in_order(calls.events, whole)
    for version in range(2):
        assert f"sync {log}/{version:020d}.json" in calls.events
    (file,) = load(writer.path).files
    assert calls.events[0] == f"sync {table}/{file}"

    writer.add(0, 10, 20)
    (added,) = load(writer.path).files.keys() - {file}
    calls.clear()
    assert verifier.ends() == {0: 20}
    assert calls.events == [
        f"sync {table}/{added}", f"sync directory {table}/partition=0",
        f"sync directory {table}", f"sync {log}/{2:020d}.json",
        f"sync directory {log}",
    ]  # fmt: skip


@pytest.mark.parametrize("is_known", [True, False])
def test_what_came_back_by_where_it_lies_is_not_missed(
    tmp_path: Path, is_known: bool
) -> None:
    writer = Writer(str(tmp_path))
    writer.add(0, 0, 10)
    verifier = Verifier(TOPIC_ID, writer.path)
    if is_known:
        assert verifier.ends() == {0: 10}
    clone_back(writer.path)
    with capture_logs() as logs:
        assert verifier.ends() == {0: 10}
    assert not logs


@pytest.mark.parametrize("kind", ["of the table", "in the log", "gone", "elsewhere"])
def test_an_owners_deletion_vector_is_durable_as_its_file_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Its owner's tools sync none, and without it nobody may read the file."""
    writer, uuid = Writer(str(tmp_path)), UUID(int=7)
    writer.add(0, 0, 10)
    verifier = Verifier(TOPIC_ID, writer.path)
    assert verifier.ends() == {0: 10}
    (file,) = load(writer.path).files
    vector, name = stored(writer.path, [3], uuid), f"deletion_vector_{uuid}.bin"
    if kind == "in the log":
        vector = inline([3])
    elif kind == "gone":
        os.unlink(os.path.join(writer.path, name))
    elif kind == "elsewhere":
        vector = vector._replace(storage="p", place="/elsewhere/x.bin")
    delete_rows(writer, {file: vector})
    directory, base = os.path.split(file)
    summed = f"{directory}/.{base}.crc"  # empty, Hadoop's readers would refuse the file
    Path(writer.path, summed).write_bytes(b"crc")
    if kind == "of the table":
        Path(writer.path, f".{name}.crc").write_bytes(b"crc")
    table = os.path.relpath(writer.path, tmp_path)
    theirs = {f"sync {table}/{name}", f"sync {table}/.{name}.crc"}
    for asked in (verifier, Verifier(TOPIC_ID, writer.path)):
        calls = SystemCalls(monkeypatch, tmp_path)
        assert asked.ends() == {0: 10}
        there = theirs if kind == "of the table" else set[str]()
        assert theirs.intersection(calls.events) == there
        assert {f"sync {table}/{file}", f"sync {table}/{summed}"} <= set(calls.events)


@pytest.mark.parametrize("starts_anew", [False, True])
def test_an_owners_change_data_are_durable_before_his_entry_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, starts_anew: bool
) -> None:
    writer = Writer(str(tmp_path))
    writer.add(0, 0, 10)
    table = deltalake.DeltaTable(writer.path)
    table.alter.set_table_properties({CHANGE_FEED: "true"})
    verifier = Verifier(TOPIC_ID, writer.path)
    assert verifier.ends() == {0: 10}
    table.update(updates={"value": "key"}, predicate="offset = 4")
    (changed,) = Path(writer.path, "_change_data").rglob("*.parquet")
    calls = SystemCalls(monkeypatch, Path(writer.path))
    if starts_anew:
        verifier = Verifier(TOPIC_ID, writer.path)
    assert verifier.ends() == {0: 10}
    synced, entry = calls.events, f"sync _delta_log/{table.version():020d}.json"
    whole = [
        f"sync {changed.relative_to(writer.path)}", "sync directory _change_data",
        "sync directory .", entry,
    ]  # fmt: skip
    assert in_order(synced, whole)
    assert not any("_change_data" in one for one in synced[synced.index(entry) :])


def test_change_data_of_an_entry_that_others_follow_are_durable_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The compactor went on before the broker starts. What is cleaned
    away of the log behind a checkpoint is nothing to read."""
    writer = Writer(str(tmp_path))
    writer.add(0, 0, 10)
    table = deltalake.DeltaTable(writer.path)
    table.alter.set_table_properties({CHANGE_FEED: "true"})
    table.create_checkpoint()
    os.unlink(entry_path(writer.path, 0))
    table.update(updates={"value": "key"}, predicate="offset = 4")
    (changed,) = Path(writer.path, "_change_data").rglob("*.parquet")
    writer.add(0, 10, 20)
    calls = SystemCalls(monkeypatch, Path(writer.path))
    assert Verifier(TOPIC_ID, writer.path).ends() == {0: 20}
    assert calls.of(f"sync {changed.relative_to(writer.path)}")


@pytest.mark.parametrize("starts_anew", [False, True])
def test_an_owners_checkpoint_is_durable_before_what_is_cleaned_behind_it_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, starts_anew: bool
) -> None:
    writer = Writer(str(tmp_path))
    writer.add(0, 0, 10)
    verifier = Verifier(TOPIC_ID, writer.path)
    assert verifier.ends() == {0: 10}
    deltalake.DeltaTable(writer.path).delete("offset = 4")
    deltalake.DeltaTable(writer.path).create_checkpoint()
    summed = Path(writer.path, "_delta_log", f".{2:020d}.checkpoint.parquet.crc")
    summed.write_bytes(b"crc")
    calls = SystemCalls(monkeypatch, summed.parent)
    if starts_anew:
        _hints.clear()
        verifier = Verifier(TOPIC_ID, writer.path)
    assert verifier.ends() == {0: 10}
    first = next(at for at, one in enumerate(calls.events) if "directory" in one)
    made = f"{2:020d}.checkpoint.parquet"
    assert {f"sync {made}", f"sync .{made}.crc"} <= set(calls.events[:first])


def test_sums_that_the_broker_may_not_open_keep_no_segments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, real = Writer(str(tmp_path)), os.open
    writer.add(0, 0, 10)
    (file,) = load(writer.path).files
    directory, base = os.path.split(file)
    Path(writer.path, directory, f".{base}.crc").write_bytes(b"crc")

    def refuse(path: str, *how: int, **more: int) -> int:
        if str(path).endswith(f".{base}.crc"):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return real(path, *how, **more)

    monkeypatch.setattr(os, "open", refuse)
    assert Verifier(TOPIC_ID, writer.path).ends() == {0: 10}


def test_the_broker_writes_no_owners_sums_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Writer(str(tmp_path))
    writer.add(0, 0, 10)
    (file,) = load(writer.path).files
    summed = Path(writer.path, os.path.dirname(file), f".{os.path.basename(file)}.crc")
    summed.write_bytes(b"crc")
    inode = summed.stat().st_ino
    refuse_syncs_of(monkeypatch, summed)
    assert Verifier(TOPIC_ID, writer.path).ends() is None
    assert summed.stat().st_ino == inode


@pytest.mark.parametrize("name", ["/elsewhere/x", "//elsewhere/x", "../x"])
def test_a_file_that_is_not_in_the_table_is_lacking(tmp_path: Path, name: str) -> None:
    """Whatever is there: no reader of ours takes it, and nobody goes there to sync."""
    writer = Writer(str(tmp_path))
    writer.add(0, 0, 10)
    (file,) = load(writer.path).files
    there = Path(tmp_path, "elsewhere", "x.parquet")
    there.parent.mkdir()
    there.write_bytes(Path(writer.path, file).read_bytes())
    named = name.replace("/elsewhere", str(there.parent)).replace("..", "../..")
    entry = Path(entry_path(writer.path, 1))
    text = entry.read_text().replace(f'"{file}"', f'"{named}.parquet"')
    assert named in text
    entry.write_text(text)
    verifier = Verifier(TOPIC_ID, writer.path)
    assert verifier.ends() == {0: 10}
    assert verifier.lacking == {0: [(0, 10)]}


def test_the_broker_writes_no_checkpoint_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Writer(str(tmp_path))
    writer.add(0, 0, 10)
    verifier = Verifier(TOPIC_ID, writer.path)
    assert verifier.ends() == {0: 10}
    writer.add(0, 10, 20)
    deltalake.DeltaTable(writer.path).create_checkpoint()
    path = Path(writer.path, "_delta_log", f"{2:020d}.checkpoint.parquet")
    inode = path.stat().st_ino
    refuse_syncs_of(monkeypatch, path)
    assert verifier.ends() is None
    assert path.stat().st_ino == inode


def test_a_table_whose_sync_failed_has_no_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Writer(str(tmp_path))
    writer.add(0, 0, 10)
    verifier = Verifier(TOPIC_ID, writer.path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing)
        assert verifier.ends() is None
    assert verifier.ends() is None  # the kernel may say yes the second time
    assert verifier.problem is not None
    assert "its segments stay: [Errno 5]" in verifier.problem


@pytest.mark.parametrize("text", ['{"add":5}', '{"txn":[1]}', "[]", "no JSON"])
def test_whatever_stands_in_an_entry_the_table_is_not_verified_until_it_goes(
    tmp_path: Path, text: str
) -> None:
    """The one thread that verifies all tables goes on."""
    writer = Writer(str(tmp_path))
    writer.add(0, 0, 10)
    verifier = Verifier(TOPIC_ID, writer.path)
    assert verifier.ends() == {0: 10}
    entry = Path(entry_path(writer.path, 2))
    entry.write_text(text)
    assert verifier.ends() is None
    assert "cannot be verified" in (verifier.problem or "")
    entry.unlink()
    assert verifier.ends() == {0: 10}
    assert verifier.problem is None


def test_what_nobody_foresaw_in_a_table_is_told_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Writer(str(tmp_path))
    writer.add(0, 0, 10)
    verifier = Verifier(TOPIC_ID, writer.path)

    def odd(_path: str) -> None:
        raise RecursionError("too deep")

    with monkeypatch.context() as patch, capture_logs() as told:
        patch.setattr(verify, "load", odd)
        assert [verifier.ends(), verifier.ends()] == [None, None]
    assert "its segments stay: RecursionError" in (verifier.problem or "")
    assert [one["event"] for one in told] == ["table not verified"]
    assert verifier.ends() == {0: 10}


def test_the_table_of_another_topic_is_nothing_of_this_one(tmp_path: Path) -> None:
    """Nor what it lacks: it is followed by whoever it belongs to."""
    writer = Writer(str(tmp_path))
    writer.add(0, 0, 10)
    (file,) = load(writer.path).files
    Path(writer.path, file).unlink()
    verifier = Verifier("f" * 32, writer.path)
    assert verifier.ends() == {}
    assert (verifier.version, verifier.lacking, verifier.problem) == (-1, {}, None)


def test_an_entry_that_was_replaced_is_verified_anew(tmp_path: Path) -> None:
    """What the owner took out is not in the table, though it was once."""
    writer = Writer(str(tmp_path))
    writer.add(0, 0, 10)
    writer.add(0, 10, 20)
    verifier = Verifier(TOPIC_ID, writer.path)
    assert verifier.ends() == {0: 20}
    os.unlink(entry_path(writer.path, 2))
    writer.add(1, 0, 5)
    assert verifier.ends() == {0: 10, 1: 5}


def test_a_file_that_is_gone_is_told_once_and_holds_nothing_else(
    tmp_path: Path,
) -> None:
    """It is looked for twice a second, and may be gone for good."""
    writer = Writer(str(tmp_path))
    writer.add(0, 0, 10)
    (file,) = load(writer.path).files
    writer.add(0, 10, 20)
    writer.add(1, 0, 5)
    path, away = Path(writer.path, file), tmp_path / "away"
    with capture_logs() as told:
        path.rename(away)
        verifier = Verifier(TOPIC_ID, writer.path)
        assert [verifier.ends() for _ in range(3)] == [{0: 20, 1: 5}] * 3
        assert verifier.lacking == {0: [(0, 10)]}
        assert verifier.problem is not None
        assert file in verifier.problem
        away.rename(path)
        assert verifier.ends() == {0: 20, 1: 5}
        assert (verifier.lacking, verifier.problem) == ({}, None)
    assert [one["event"] for one in told] == ["data files are not there"]


def test_a_file_of_a_new_commit_that_is_not_whole_is_lacking_until_it_leaves(
    tmp_path: Path,
) -> None:
    writer = Writer(str(tmp_path))
    verifier = Verifier(TOPIC_ID, writer.path)
    writer.add(0, 0, 10)
    assert verifier.ends() == {0: 10}
    writer.add(0, 10, 20)
    [file] = [f for f in load(writer.path).files.values() if f.first_offset == 10]
    os.truncate(Path(writer.path, file.path), 10)
    assert verifier.ends() == {0: 20}
    assert verifier.lacking == {0: [(10, 20)]}
    remove_files(
        writer.path, TOPIC_ID, [(file.path, 0, file.size)], now_ms=1, log_starts={}
    )
    assert verifier.ends() == {0: 20}
    assert verifier.lacking == {}


def test_what_is_lacking_is_remembered_when_a_new_look_ends_half_way(
    tmp_path: Path,
) -> None:
    """Its owner moved an entry away, and back, and a file could not be looked at."""
    writer = Writer(str(tmp_path))
    writer.add(0, 0, 10)
    [gone] = load(writer.path).files
    writer.add(0, 10, 20)
    [other] = load(writer.path).files.keys() - {gone}
    writer.add(1, 0, 5)
    Path(writer.path, gone).unlink()
    verifier = Verifier(TOPIC_ID, writer.path)
    verifier.ends()
    assert verifier.lacking == {0: [(0, 10)]}

    entry, file = Path(entry_path(writer.path, 3)), Path(writer.path, other)
    entry.rename(tmp_path / "entry")
    file.rename(tmp_path / "file")
    file.symlink_to(file)
    assert verifier.ends() is None
    (tmp_path / "file").replace(file)
    (tmp_path / "entry").rename(entry)
    assert verifier.ends() == {0: 20, 1: 5}
    assert verifier.lacking == {0: [(0, 10)]}


def test_a_file_that_came_back_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Writer(str(tmp_path))
    writer.add(0, 0, 10)
    (file,) = load(writer.path).files
    path, away = Path(writer.path, file), tmp_path / "away"
    path.rename(away)
    verifier = Verifier(TOPIC_ID, writer.path)
    verifier.ends()
    away.rename(path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing)
        assert verifier.ends() is None
    assert verifier.ends() is None


def failing(_: int) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_what_an_owner_says_of_an_end_releases_nothing(tmp_path: Path) -> None:
    writer = Writer(str(tmp_path))
    writer.add(0, 0, 10)
    verifier = Verifier(TOPIC_ID, writer.path)
    assert verifier.ends() == {0: 10}
    said = deltalake.Transaction(f"{TOPIC_ID}/0", 10**12)
    deltalake.write_deltalake(
        writer.path,
        rows(0, [3]),
        mode="append",
        commit_properties=deltalake.CommitProperties(app_transactions=[said]),
    )
    for each in (verifier, Verifier(TOPIC_ID, writer.path)):
        assert each.ends() == {0: 10}
    writer.add(0, 10, 20)
    assert verifier.ends() == {0: 20}
