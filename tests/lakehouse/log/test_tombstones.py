"""A checkpoint of ours tells which files left for as long as the table's owner says."""

import errno
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse.errors import CommitRefused
from lakehouse.log import checksums, library, proven_checkpoint, tombstones
from lakehouse.log.checkpoint_repair import prove_checkpoint
from lakehouse.log.delta_log import LOG_DIRECTORY, Snapshot, entry_path, follow, load
from lakehouse.log.proven_checkpoint import make_checkpoint
from lakehouse.log.tombstones import removes_at
from tests.support.tables import Writer
from tests.support.v2_checkpoint import as_v2

DAY_MS = 86_400_000
RETENTION = "delta.deletedFileRetentionDuration"
SAID = [
    "interval 60 days", "60 days", "INTERVAL 60 DAYS", "interval 8 weeks 4 days",
    "interval +60 days", "interval 60 days 0 microseconds",
    "interval 5184000.0 seconds",
]  # fmt: skip


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    """A table of three files."""
    writer = Writer(str(tmp_path))
    for n in range(3):
        writer.add(0, n * 10, n * 10 + 10)
    return writer


def commit(writer: Writer, *actions: Mapping[str, Any]) -> None:
    entry = Path(entry_path(writer.path, load(writer.path).version + 1))
    entry.write_text("\n".join(map(json.dumps, actions)))


def say(writer: Writer, duration: str) -> None:
    body = load(writer.path).metadata.body  # type: ignore[union-attr]
    changed = {**body["configuration"], RETENTION: duration}
    commit(writer, {"metaData": body | {"configuration": changed}})


def remove(writer: Writer, path: str, days: int, **more: Any) -> None:
    """A file left so many days ago."""
    when = int(time.time() * 1000) - days * DAY_MS
    said = {"path": path, "deletionTimestamp": when, "dataChange": True, **more}
    commit(writer, {"remove": said})


def checkpoint(writer: Writer) -> Snapshot:
    """One of ours, and what a process that loads the table knows then."""
    snapshot = load(writer.path)
    assert make_checkpoint(snapshot, snapshot.version) is None
    found = load(writer.path)
    assert (found.checkpoint, found.damaged) == (snapshot.version, ())
    return found


def rows_of(writer: Writer, version: int) -> list[dict[str, Any]]:
    name = f"{version:020d}.checkpoint.parquet"
    path = Path(writer.path) / LOG_DIRECTORY / name
    return [r for r in pq.read_table(path).column("remove").to_pylist() if r]


@pytest.mark.parametrize("said", SAID)
def test_it_tells_what_left_in_whatever_words_the_owner_says_for_how_long(
    writer: Writer, said: str
) -> None:
    first, second, _ = load(writer.path).files
    say(writer, said)
    remove(writer, first, 10, size=7, partitionValues={"partition": "0"})
    remove(writer, second, 61)
    found = checkpoint(writer)
    assert found.removed.keys() == {first}
    [row] = rows_of(writer, found.version)
    assert (row["path"], row["size"], row["dataChange"]) == (first, 7, True)
    assert dict(row["partitionValues"]) == {"partition": "0"}
    writer.add(0, 30, 40)
    assert checkpoint(writer).removed.keys() == {first}  # out of the one before


def test_where_nobody_understands_the_owners_words_it_tells_all_that_left(
    writer: Writer,
) -> None:
    first, second, _ = load(writer.path).files
    say(writer, "interval '60' day")
    remove(writer, first, 10)
    remove(writer, second, 10_000)
    assert checkpoint(writer).removed.keys() == {first, second}


def test_the_hint_is_of_what_was_written(writer: Writer) -> None:
    first, *_ = load(writer.path).files
    say(writer, "60 days")
    remove(writer, first, 10)
    found = checkpoint(writer)
    log = Path(writer.path) / LOG_DIRECTORY
    place = log / f"{found.version:020d}.checkpoint.parquet"
    hint = json.loads((log / "_last_checkpoint").read_text())
    assert hint["version"] == found.version
    assert hint["size"] == pq.read_metadata(place).num_rows
    assert hint["sizeInBytes"] == place.stat().st_size
    assert not [name for name in os.listdir(log) if name.endswith(".tmp")]


def test_an_owners_vacuum_keeps_what_his_retention_does(writer: Writer) -> None:
    first, *_ = load(writer.path).files
    say(writer, "60 days")
    long_ago_s = time.time() - 100 * 86_400
    os.utime(Path(writer.path) / first, (long_ago_s, long_ago_s))
    remove(writer, first, 10)
    checkpoint(writer)
    table = deltalake.DeltaTable(writer.path)
    assert table.vacuum(retention_hours=60 * 24, dry_run=True, full=True) == []
    assert table.to_pyarrow_table().num_rows == 20


def test_what_came_back_did_not_leave(writer: Writer) -> None:
    """RESTORE: and a file with another deletion vector is another one."""
    first, second, _ = load(writer.path).files
    size = os.path.getsize(Path(writer.path) / first)
    back = {"path": first, "size": size, "partitionValues": {"partition": "0"},
            "modificationTime": 1, "dataChange": True}  # fmt: skip
    say(writer, "60 days")
    remove(writer, first, 10)
    remove(writer, second, 9)
    commit(writer, {"add": back})
    assert checkpoint(writer).removed.keys() == {second}
    assert {row["path"] for row in rows_of(writer, 7)} == {second}


def test_what_an_owners_checkpoint_forgot_and_we_know_is_told_again(
    writer: Writer,
) -> None:
    first, *_ = load(writer.path).files
    say(writer, "60 days")
    remove(writer, first, 10)
    followed = load(writer.path)
    deltalake.DeltaTable(writer.path).create_checkpoint()
    for version in range(followed.version):
        os.unlink(entry_path(writer.path, version))
    assert load(writer.path).removed == {}
    assert make_checkpoint(followed, followed.version) is None
    assert load(writer.path).removed == {}, "it is his"
    writer.add(0, 30, 40)
    assert follow(followed)
    assert make_checkpoint(followed, followed.version) is None
    assert load(writer.path).removed.keys() == {first}


def behind_an_owners(writer: Writer) -> tuple[str, Snapshot]:
    """Ours tells what left, an owner's behind it does not: that, and a new process."""
    first, *_ = load(writer.path).files
    say(writer, "60 days")
    remove(writer, first, 10)
    assert checkpoint(writer).removed.keys() == {first}
    writer.add(0, 30, 40)
    deltalake.DeltaTable(writer.path).create_checkpoint()
    restarted = load(writer.path)
    assert restarted.removed == {}
    assert prove_checkpoint(restarted) is None, "it tells the same state"
    return first, restarted


def in_parts(writer: Writer, version: int, count: int) -> None:
    """The checkpoint of a version is one of so many files."""
    log = Path(writer.path) / LOG_DIRECTORY
    place, hint = log / f"{version:020d}.checkpoint.parquet", log / "_last_checkpoint"
    if count == 1:
        return
    table = pq.ParquetFile(place).read()
    place.unlink()
    for n in range(count):
        name = f"{version:020d}.checkpoint.{n + 1:010d}.{count:010d}.parquet"
        first, end = n * len(table) // count, (n + 1) * len(table) // count
        pq.write_table(table.slice(first, end - first), log / name)
    said = json.loads(hint.read_text())
    said.pop("checksum", None)
    hint.write_text(json.dumps(said | {"parts": count}))


def test_what_an_owners_checkpoint_forgot_one_of_ours_before_it_tells(
    writer: Writer,
) -> None:
    first, _ = behind_an_owners(writer)
    long_ago_s = time.time() - 100 * 86_400
    os.utime(Path(writer.path) / first, (long_ago_s, long_ago_s))
    for start in (40, 50):
        writer.add(0, start, start + 10)
        assert checkpoint(writer).removed.keys() == {first}
    table = deltalake.DeltaTable(writer.path)
    assert table.vacuum(retention_hours=60 * 24, dry_run=True, full=True) == []


@pytest.mark.parametrize("parts", [1, 3])
def test_what_ours_tells_is_told_behind_any_number_of_an_owners(
    writer: Writer, parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of which not all checksums are kept, and the entries are cleaned away."""
    monkeypatch.setattr(checksums, "KEPT", 2)
    first, restarted = behind_an_owners(writer)
    for version in range(restarted.version):
        os.unlink(entry_path(writer.path, version))
    for start in (40, 50, 60):
        deltalake.DeltaTable(writer.path).create_checkpoint()
        in_parts(writer, load(writer.path).version, parts)
        assert prove_checkpoint(load(writer.path)) is None
        writer.add(0, start, start + 10)
    assert checkpoint(writer).removed.keys() == {first}


def test_what_an_owners_checkpoint_forgot_the_entries_tell(writer: Writer) -> None:
    """There is none of ours yet."""
    first, second, _ = load(writer.path).files
    say(writer, "60 days")
    remove(writer, first, 10)
    deltalake.DeltaTable(writer.path).create_checkpoint()
    assert load(writer.path).removed == {}
    remove(writer, second, 1)
    assert checkpoint(writer).removed.keys() == {first, second}


def test_what_left_between_ours_and_an_owners_is_told(writer: Writer) -> None:
    """Which comes so late that it takes a week for over."""
    first, second, _ = load(writer.path).files
    say(writer, "60 days")
    remove(writer, first, 10)
    checkpoint(writer)
    remove(writer, second, 9)
    deltalake.DeltaTable(writer.path).create_checkpoint()
    writer.add(0, 30, 40)
    assert checkpoint(writer).removed.keys() == {first, second}


@pytest.mark.parametrize("leaves_first", [True, False])
@pytest.mark.parametrize("gap", ["cleaned", "torn", "no file", "too long"])
def test_where_not_all_entries_between_are_read_both_are_believed(
    writer: Writer, gap: str, leaves_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what came back on the way is there."""
    first, second, third = load(writer.path).files
    size = os.path.getsize(Path(writer.path) / second)
    back = {"path": second, "size": size, "partitionValues": {"partition": "0"},
            "modificationTime": 1, "dataChange": True}  # fmt: skip
    say(writer, "60 days")
    remove(writer, first, 10)
    remove(writer, second, 10)
    ours = checkpoint(writer).version
    if leaves_first:  # what is not read tells of that alone
        remove(writer, third, 1)
    commit(writer, {"add": back})
    if not leaves_first:
        remove(writer, third, 1)
    deltalake.DeltaTable(writer.path).create_checkpoint()
    writer.add(0, 30, 40)
    entry = Path(entry_path(writer.path, ours + 1))
    if gap == "torn":
        entry.write_text(entry.read_text()[:-9])
    elif gap == "too long":
        monkeypatch.setattr(tombstones, "REACH", 1)
    else:
        entry.unlink()
    if gap == "no file":
        os.mkfifo(entry)
    told = {path for path, _ in removes_at(writer.path, load(writer.path).version)}
    assert told - {second} == {first, third}
    found = checkpoint(writer)
    assert (found.removed.keys(), second in found.files) == ({first, third}, True)


@pytest.mark.parametrize("gap", ["cleaned", "too long"])
def test_where_neither_entries_nor_an_owners_checkpoint_are_read_nothing_is_forgotten(
    writer: Writer, gap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody knows what left between ours and his: none is made behind it then."""
    first, second, _ = load(writer.path).files
    say(writer, "60 days")
    remove(writer, first, 10)
    ours = checkpoint(writer).version
    remove(writer, second, 10)
    writer.add(0, 30, 40)
    deltalake.DeltaTable(writer.path).create_checkpoint()
    version = writer.add(0, 40, 50).version
    assert {path for path, _ in removes_at(writer.path, version)} == {first, second}
    if gap == "too long":
        monkeypatch.setattr(tombstones, "REACH", 1)
    else:
        os.unlink(entry_path(writer.path, ours + 1))
    log = Path(writer.path) / LOG_DIRECTORY
    (log / f"{version - 1:020d}.checkpoint.parquet").write_bytes(b"of a new kind")
    with pytest.raises(ValueError, match="Parquet"):
        removes_at(writer.path, version)


def test_what_ours_tells_is_told_where_entries_behind_a_checkpoint_are_gone(
    writer: Writer,
) -> None:
    """They went while the next one was made."""
    first, _ = behind_an_owners(writer)
    version = writer.add(0, 40, 50).version
    os.unlink(entry_path(writer.path, version))
    assert removes_at(writer.path, version).keys() == {(first, None)}


def test_what_an_owners_checkpoint_tells_beyond_ours_and_the_entries_is_told(
    writer: Writer,
) -> None:
    """Ours forgot it by what its owner said then; a session of his went on from before
    that. What came back since did not leave."""
    first, second, _ = load(writer.path).files
    size = os.path.getsize(Path(writer.path) / second)
    back = {"path": second, "size": size, "partitionValues": {"partition": "0"},
            "modificationTime": 1, "dataChange": True}  # fmt: skip
    remove(writer, first, 10)
    remove(writer, second, 10)
    say(writer, "interval 1 days")
    assert checkpoint(writer).removed == {}
    say(writer, "60 days")
    writer.add(0, 30, 40)
    deltalake.DeltaTable(writer.path).create_checkpoint()
    version = load(writer.path).version
    when = int(time.time() * 1000) - 10 * DAY_MS
    leave = [
        {"path": path, "deletionTimestamp": when, "dataChange": True}
        for path in (first, second)
    ]
    place = Path(writer.path) / LOG_DIRECTORY / f"{version:020d}.checkpoint.parquet"
    table = pq.ParquetFile(place).read()
    rows = [
        pa.array(leave if field.name == "remove" else [None, None], field.type)
        for field in table.schema
    ]
    more = pa.table(rows, schema=table.schema)
    pq.write_table(pa.concat_tables([table, more]), place)
    (place.parent / "_last_checkpoint").unlink()
    commit(writer, {"add": back})
    found = removes_at(writer.path, writer.add(0, 40, 50).version)
    assert found.keys() == {(first, None)}
    place.write_bytes(b"")  # where it cannot be read, ours and the entries are all
    assert removes_at(writer.path, version + 2) == {}


def test_one_of_ours_that_is_damaged_is_passed_over(writer: Writer) -> None:
    """For the one before it; without any, entries and an owner's are all there is."""
    first, restarted = behind_an_owners(writer)
    log = Path(writer.path) / LOG_DIRECTORY
    own = log / f"{restarted.version - 1:020d}.checkpoint.parquet"
    writer.add(0, 40, 50)
    newer = log / f"{checkpoint(writer).version:020d}.checkpoint.parquet"
    writer.add(0, 50, 60)
    deltalake.DeltaTable(writer.path).create_checkpoint()
    version = writer.add(0, 60, 70).version
    os.unlink(entry_path(writer.path, restarted.version - 1))
    for damaged, told in ((newer, {(first, None)}), (own, set())):
        damaged.write_bytes(damaged.read_bytes()[:-1])
        assert removes_at(writer.path, version).keys() == told


def test_what_left_later_was_there(writer: Writer) -> None:
    """A checkpoint is made behind further entries, of which merges are some."""
    first, second, _ = load(writer.path).files
    say(writer, "60 days")
    remove(writer, first, 10)
    remove(writer, second, 0)
    snapshot = load(writer.path)
    assert make_checkpoint(snapshot, snapshot.version - 1) is None
    assert [row["path"] for row in rows_of(writer, snapshot.version - 1)] == [first]
    assert load(writer.path).removed.keys() == {first, second}


def test_an_owners_checkpoint_stays_as_he_wrote_it(writer: Writer) -> None:
    """What his engine noted of it would make it refuse another."""
    first, *_ = load(writer.path).files
    say(writer, "60 days")
    remove(writer, first, 10)
    followed = load(writer.path)
    deltalake.DeltaTable(writer.path).create_checkpoint()
    log = Path(writer.path) / LOG_DIRECTORY
    place = log / f"{followed.version:020d}.checkpoint.parquet"
    written = place.read_bytes()
    assert make_checkpoint(followed, followed.version) is None
    assert place.read_bytes() == written


def test_what_is_noted_of_another_file_goes_with_it(writer: Writer) -> None:
    first, *_ = load(writer.path).files
    say(writer, "60 days")
    remove(writer, first, 10)
    log = Path(writer.path) / LOG_DIRECTORY
    names = f".{load(writer.path).version:020d}.checkpoint.parquet", "._last_checkpoint"
    for name in names:
        (log / f"{name}.crc").touch()
    checkpoint(writer)
    assert not [name for name in names if (log / f"{name}.crc").exists()]


def test_one_that_is_not_completed_does_not_stay(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *_ = load(writer.path).files
    say(writer, "60 days")
    remove(writer, first, 10)
    snapshot = load(writer.path)

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    with monkeypatch.context() as patch:
        patch.setattr(proven_checkpoint, "complete", full)
        with pytest.raises(OSError, match="no space left"):
            make_checkpoint(snapshot, snapshot.version)
    assert load(writer.path).checkpoint == -1
    checkpoint(writer)


def test_what_a_killed_process_had_not_completed_is_made_anew(writer: Writer) -> None:
    first, _ = killed_in(writer)
    writer.add(0, 30, 40)
    restarted = load(writer.path)
    assert restarted.removed == {}
    assert "not completed" in (make_checkpoint(restarted, restarted.version) or "")
    assert load(writer.path).removed.keys() == {first}
    log = Path(writer.path) / LOG_DIRECTORY
    assert not [name for name in os.listdir(log) if name.endswith(".begun")]


@pytest.mark.parametrize("kind", ["json", "parquet"])
def test_checkpoints_of_the_v2_kind_tell_what_left(writer: Writer, kind: str) -> None:
    first, *_ = load(writer.path).files
    say(writer, "interval 60 days")
    remove(writer, first, 10, partitionValues={"partition": "0"})
    as_v2(writer, kind)
    version = writer.add(0, 30, 40).version
    assert {path for path, _ in removes_at(writer.path, version)} == {first}


def test_one_that_does_not_tell_what_left_does_not_stay(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *_ = load(writer.path).files
    say(writer, "60 days")
    remove(writer, first, 10)
    monkeypatch.setattr(proven_checkpoint, "complete", lambda *_, **__: None)
    snapshot = load(writer.path)
    with pytest.raises(CommitRefused, match=r"does not tell .*: that .* left"):
        make_checkpoint(snapshot, snapshot.version)
    assert load(writer.path).checkpoint == -1


def killed_in(writer: Writer) -> tuple[str, int]:
    """A process was killed before it completed a checkpoint: what left, and of when."""
    first, *_ = load(writer.path).files
    say(writer, "60 days")
    remove(writer, first, 10)
    version = load(writer.path).version
    log = Path(writer.path) / LOG_DIRECTORY
    (log / f".{version:020d}.checkpoint.begun").touch()
    library.checkpoint(writer.path, version)
    return first, version


def test_one_that_is_not_completed_is_put_aside_at_the_start(writer: Writer) -> None:
    first, version = killed_in(writer)
    restarted = load(writer.path)
    assert (restarted.checkpoint, restarted.removed) == (version, {})
    assert "not completed" in (prove_checkpoint(restarted) or "")
    assert load(writer.path).removed.keys() == {first}


def test_one_that_alone_tells_the_table_stays(writer: Writer) -> None:
    """Its owner cleaned the log by it: nothing of it was wrong for him."""
    _, version = killed_in(writer)
    for before in range(version):
        os.unlink(entry_path(writer.path, before))
    restarted = load(writer.path)
    assert prove_checkpoint(restarted) is None
    writer.add(0, 30, 40)
    assert follow(restarted)
    assert make_checkpoint(restarted, restarted.version) is None
    assert load(writer.path).files.keys() == restarted.files.keys()
    assert deltalake.DeltaTable(writer.path).to_pyarrow_table().num_rows == 30
    log = Path(writer.path) / LOG_DIRECTORY
    assert (log / f"{version:020d}.checkpoint.parquet").exists()
