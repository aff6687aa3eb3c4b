"""A checkpoint of ours tells what was followed, and is known by its bytes from then."""

import errno
import os
import shutil
from pathlib import Path

import deltalake
import pyarrow.parquet as pq
import pytest

from lakehouse.durable import SyncFailed
from lakehouse.errors import CommitRefused, LogDamaged
from lakehouse.log import library, proven_checkpoint
from lakehouse.log.checkpoint_repair import repair_checkpoint
from lakehouse.log.checksums import noted
from lakehouse.log.delta_log import (
    LOG_DIRECTORY,
    Snapshot,
    entry_path,
    load,
    table_ends,
)
from lakehouse.log.proven_checkpoint import make_checkpoint
from tests.support.syscalls import SystemCalls, in_order
from tests.support.tables import Writer


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    return Writer(str(tmp_path))


def place(writer: Writer, version: int) -> Path:
    name = f"{version:020d}.checkpoint.parquet"
    return Path(writer.path) / LOG_DIRECTORY / name


def rows(writer: Writer, first: int, rounds: int) -> Snapshot:
    for n in range(first, first + rounds):
        writer.add(0, n * 10, n * 10 + 10)
    return load(writer.path)


def another_state(writer: Writer, version: int, source: bytes) -> None:
    """A checkpoint tells another state and can be read, as some flipped bits have it;
    its times are what they were."""
    found = os.stat(place(writer, version))
    place(writer, version).write_bytes(source)
    os.utime(place(writer, version), ns=(found.st_atime_ns, found.st_mtime_ns))


def older(writer: Writer, tmp_path: Path, version: int) -> bytes:
    """The bytes of a checkpoint of this version, made elsewhere."""
    copy = tmp_path / f"copy-{version}"
    shutil.copytree(writer.path, copy)
    deltalake.DeltaTable(str(copy), version=version).create_checkpoint()
    return (copy / LOG_DIRECTORY / place(writer, version).name).read_bytes()


def test_another_state_is_not_read_out_of_a_checkpoint_of_ours(
    writer: Writer, tmp_path: Path
) -> None:
    before = rows(writer, 0, 4)
    make_checkpoint(before, 4)
    another_state(writer, 4, older(writer, tmp_path, 3))
    after = load(writer.path)
    assert after.files == before.files
    assert after.damaged == (place(writer, 4).name,)
    why = repair_checkpoint(after)
    assert why is not None
    assert "not as it was written" in why
    assert not place(writer, 4).exists()
    assert library.opens(writer.path)
    assert load(writer.path).damaged == ()


def test_where_nothing_else_tells_the_state_a_damaged_one_is_told(
    writer: Writer, tmp_path: Path
) -> None:
    make_checkpoint(rows(writer, 0, 4), 4)
    another_state(writer, 4, older(writer, tmp_path, 3))
    for version in range(4):
        os.unlink(entry_path(writer.path, version))
    with pytest.raises(LogDamaged, match="not as it was written"):
        load(writer.path)


def written_anew(writer: Writer, version: int) -> None:
    """Its owner writes the checkpoint himself: the same state in other bytes."""
    path = place(writer, version)
    table, time_ns = pq.ParquetFile(path).read(), os.stat(path).st_mtime_ns + 1
    pq.write_table(table, path, compression="zstd")
    os.utime(path, ns=(time_ns, time_ns))


def test_one_that_its_owner_wrote_anew_is_read_where_nothing_else_tells_the_state(
    writer: Writer,
) -> None:
    before = rows(writer, 0, 4)
    make_checkpoint(before, 4)
    written_anew(writer, 4)
    for version in range(4):
        os.unlink(entry_path(writer.path, version))
    after = load(writer.path)
    assert (after.files, after.damaged) == (before.files, ())


def test_one_that_its_owner_wrote_anew_is_his(writer: Writer) -> None:
    make_checkpoint(rows(writer, 0, 4), 4)
    written_anew(writer, 4)
    found = load(writer.path)
    assert found.damaged == (place(writer, 4).name,)  # the entries tell it
    assert repair_checkpoint(found) is None
    assert place(writer, 4).exists()
    assert load(writer.path).damaged == ()


def test_it_is_made_from_no_damaged_one(writer: Writer, tmp_path: Path) -> None:
    """The library would go on from another state, and each one after it, too."""
    make_checkpoint(rows(writer, 0, 4), 4)
    followed = rows(writer, 4, 4)
    another_state(writer, 4, older(writer, tmp_path, 3))
    why = make_checkpoint(followed, 8)
    assert why is not None
    assert place(writer, 4).name in why
    assert load(writer.path).files == followed.files
    assert noted(str(place(writer, 8).parent)).keys() == {place(writer, 8).name}


def test_it_is_made_from_no_other_state_of_its_owners(
    writer: Writer, tmp_path: Path
) -> None:
    """Whose checkpoint it is, nobody measured it."""
    rows(writer, 0, 4)
    deltalake.DeltaTable(writer.path).create_checkpoint()
    followed = rows(writer, 4, 4)
    another_state(writer, 4, older(writer, tmp_path, 3))
    assert make_checkpoint(followed, 8) is not None
    assert load(writer.path).files == followed.files
    assert table_ends(load(writer.path)) == {0: 80}


def test_what_does_not_tell_what_was_followed_does_not_stay(
    writer: Writer, tmp_path: Path
) -> None:
    rows(writer, 0, 4)
    deltalake.DeltaTable(writer.path).create_checkpoint()
    followed = rows(writer, 4, 4)
    another_state(writer, 4, older(writer, tmp_path, 3))
    os.unlink(entry_path(writer.path, 0))  # so the damaged one has to stay
    with pytest.raises(CommitRefused, match="does not tell what was followed"):
        make_checkpoint(followed, 8)
    assert place(writer, 4).exists()
    assert not place(writer, 8).exists()
    assert noted(str(place(writer, 8).parent)) == {}


def test_one_that_is_no_cause_is_put_back(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows(writer, 0, 4)
    deltalake.DeltaTable(writer.path).create_checkpoint()
    followed = rows(writer, 4, 4)

    def refuse(path: str, version: int) -> None:
        raise CommitRefused("a feature that the library has not")

    monkeypatch.setattr(library, "checkpoint", refuse)
    with pytest.raises(CommitRefused, match="a feature"):
        make_checkpoint(followed, 8)
    assert place(writer, 4).exists()


def test_one_that_its_owner_made_meanwhile_is_proven_and_known(writer: Writer) -> None:
    followed = rows(writer, 0, 4)
    deltalake.DeltaTable(writer.path).create_checkpoint()
    rows(writer, 4, 1)
    make_checkpoint(followed, 4)
    assert noted(str(place(writer, 4).parent)).keys() == {place(writer, 4).name}


def test_one_of_ours_stays_ours_at_a_second_look(writer: Writer) -> None:
    """Of who had lost the lease for a while, and followed from before it was made."""
    followed = rows(writer, 0, 4)
    for _ in range(2):
        make_checkpoint(followed, 4)
        assert noted(str(place(writer, 4).parent))[place(writer, 4).name].is_ours


def test_one_that_was_known_before_what_says_it_is_begun_went_stays(
    writer: Writer,
) -> None:
    """Its process was killed in between: it was completed, and is no damage."""
    make_checkpoint(rows(writer, 0, 4), 4)
    begun(writer, 4).touch()
    followed = rows(writer, 4, 4)
    assert make_checkpoint(followed, 8) is None
    assert place(writer, 4).exists()
    assert not begun(writer, 4).exists()


def test_one_without_statistics_is_proven_below_entries_that_have_them(
    writer: Writer,
) -> None:
    unsaid = {"delta.checkpoint.writeStatsAsJson": "false"}
    deltalake.DeltaTable(writer.path).alter.set_table_properties(unsaid)
    rows(writer, 0, 3)
    followed = rows(writer, 3, 2)
    make_checkpoint(followed, 4)
    assert noted(str(place(writer, 4).parent)).keys() == {place(writer, 4).name}
    after = load(writer.path)
    assert after.files.keys() == followed.files.keys()
    assert [file.is_bounded for file in after.files.values()].count(True) == 2


def fill(monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is full when a checkpoint is to be completed."""

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(proven_checkpoint, "complete", full)


def begun(writer: Writer, version: int) -> Path:
    return place(writer, version).parent / f".{version:020d}.checkpoint.begun"


def test_one_that_was_not_completed_is_gone_before_what_says_so(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or a power cut brings it back, and nobody knows."""
    followed = rows(writer, 0, 4)
    fill(monkeypatch)
    calls = SystemCalls(monkeypatch, place(writer, 4).parent)
    with pytest.raises(OSError, match="no space left"):
        make_checkpoint(followed, 4)
    assert in_order(
        calls.events,
        [
            f"remove {place(writer, 4).name}",
            "sync directory .",
            f"remove {begun(writer, 4).name}",
        ],
    )
    assert not begun(writer, 4).exists()


def test_what_says_that_one_is_begun_is_durable_before_it_is(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    followed, seen = rows(writer, 0, 4), list[object]()
    calls = SystemCalls(monkeypatch, place(writer, 4).parent)
    make = library.checkpoint

    def look(path: str, version: int) -> None:
        seen.extend([begun(writer, 4).exists(), calls.events[-1:]])
        make(path, version)

    monkeypatch.setattr(library, "checkpoint", look)
    assert make_checkpoint(followed, 4) is None
    assert seen == [True, ["sync directory ."]]
    assert not begun(writer, 4).exists()


def test_one_that_may_come_back_stays_marked_as_not_completed(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    followed, mark = rows(writer, 0, 4), begun(writer, 4)

    def refuse(path: str) -> None:
        if not place(writer, 4).exists():
            raise SyncFailed(errno.EIO, "a dead disk", path)

    with monkeypatch.context() as patch:
        fill(patch)
        patch.setattr(proven_checkpoint, "_begin", lambda path, _: mark.touch())
        patch.setattr(proven_checkpoint, "sync_directory", refuse)
        with pytest.raises(OSError, match="a dead disk"):
            make_checkpoint(followed, 4)
    assert mark.exists()
    calls = SystemCalls(monkeypatch, mark.parent)
    assert make_checkpoint(followed, 4) is None
    assert calls.events[:2] == ["sync directory .", f"remove {mark.name}"]
    assert not mark.exists()
