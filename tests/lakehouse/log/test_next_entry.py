"""An entry of ours is behind what was followed, or is none."""

import multiprocessing
import os
import signal
from contextlib import suppress
from pathlib import Path

import deltalake
import pytest

from lakehouse.errors import CommitLost
from lakehouse.log.commit import commit_files
from lakehouse.log.delta_log import (
    entry_path,
    entry_versions,
    follow,
    load,
    table_ends,
    unproven_ends,
)
from lakehouse.log.history import round_of
from lakehouse.log.next_entry import sync_entries
from tests.support.syscalls import SystemCalls
from tests.support.tables import TOPIC_ID, Writer, rows, write_file


def clean_away(path: str, kept: Path) -> None:
    """What an owner may do: rows go, the log that says so goes behind a checkpoint."""
    for offset in (4, 9):
        deltalake.DeltaTable(path).delete(f"offset = {offset}")
    os.link(entry_path(path, 2), kept)
    owner = deltalake.DeltaTable(path)
    owner.create_checkpoint()
    owner.cleanup_metadata()
    assert entry_versions(path) == [4]


def kept_for_no_day(writer: Writer) -> None:
    """Let the owner clean the log of his table whenever he likes."""
    deltalake.DeltaTable(writer.path).alter.set_table_properties(
        {"delta.logRetentionDuration": "interval 0 days"}
    )


@pytest.mark.parametrize("is_followed_left", [False, True])
def test_a_commit_where_the_log_was_cleaned_away_meanwhile_is_told(
    tmp_path: Path, is_followed_left: bool
) -> None:
    """It stood below a checkpoint, and nobody had its rows; but an end that the rows
    do not prove was taken from it. Entries go in no order: the last that was followed
    may be left for a moment."""
    writer = Writer(str(tmp_path))
    writer.add(0, 0, 10)
    path = writer.path
    kept_for_no_day(writer)
    kept = tmp_path / "kept"

    def act() -> None:
        clean_away(path, kept)
        if is_followed_left:
            os.rename(kept, entry_path(path, 2))

    file = write_file(path, "late", rows(0, range(10, 20)))
    with pytest.raises(CommitLost):
        commit_files(path, TOPIC_ID, 2, {0: (10, 20)}, [file], on_written=act)
    assert entry_versions(path) == [2, 4] if is_followed_left else [4]
    assert table_ends(load(path)) == {0: 10}
    commit_files(path, TOPIC_ID, 2, {0: (10, 20)}, [file])
    assert table_ends(load(path)) == {0: 20}
    table = deltalake.DeltaTable(path).to_pyarrow_table()
    assert sorted(table["offset"].to_pylist()) == [
        n for n in range(20) if n not in (4, 9)
    ]


def test_a_hint_to_a_checkpoint_that_is_not_there_holds_no_commit(
    tmp_path: Path,
) -> None:
    writer = Writer(str(tmp_path))
    writer.add(0, 0, 10)
    hint = Path(writer.path) / "_delta_log" / "_last_checkpoint"
    hint.write_text('{"version":900,"size":3}')
    writer.add(0, 10, 20)
    assert table_ends(load(writer.path)) == {0: 20}


def test_an_owners_checkpoint_on_top_of_ours_takes_nothing_back(
    tmp_path: Path,
) -> None:
    """It was made of our entry; without that, who follows the log stands before it."""
    writer = Writer(str(tmp_path))
    writer.add(0, 0, 10)
    path = writer.path
    follower = load(path)

    def act() -> None:
        deltalake.DeltaTable(path).delete("offset = 4")
        deltalake.DeltaTable(path).create_checkpoint()

    file = write_file(path, "next", rows(0, range(10, 20)))
    with suppress(CommitLost):
        commit_files(path, TOPIC_ID, 2, {0: (10, 20)}, [file], on_committed=act)
    versions = entry_versions(path)
    assert versions == list(range(versions[0], versions[-1] + 1))
    follow(follower)
    assert follower.version == load(path).version


def commit_and_die(path: str, kept: Path) -> None:
    """A compactor that is killed when its entry has its name, below a checkpoint."""
    file = write_file(path, "late", rows(0, range(10, 20)))

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    commit_files(
        path, TOPIC_ID, 2, {0: (10, 20)}, [file],
        on_written=lambda: clean_away(path, kept), on_committed=die,
    )  # fmt: skip


def test_what_a_killed_writer_left_below_a_checkpoint_is_no_part_of_the_table(
    tmp_path: Path,
) -> None:
    """Nobody has its rows: so nobody may take an end from it, or these are lost."""
    writer = Writer(str(tmp_path))
    writer.add(0, 0, 10)
    path = writer.path
    kept_for_no_day(writer)
    spawn = multiprocessing.get_context("spawn")
    killed = spawn.Process(target=commit_and_die, args=(path, tmp_path / "kept"))
    killed.start()
    killed.join()
    assert killed.exitcode == -signal.SIGKILL
    assert entry_versions(path) == [3, 4]
    assert table_ends(load(path)) == {0: 10}
    assert unproven_ends(load(path), TOPIC_ID) is None
    file = write_file(path, "again", rows(0, range(10, 20)))
    added = commit_files(path, TOPIC_ID, 2, {0: (10, 20)}, [file])
    assert not added.was_there
    assert table_ends(load(path)) == {0: 20}
    assert round_of(path, TOPIC_ID, 0, 15) == (added.version, 10, 20)
    table = deltalake.DeltaTable(path).to_pyarrow_table()
    assert sorted(table["offset"].to_pylist()) == [
        n for n in range(20) if n not in (4, 9)
    ]


def test_entries_of_others_are_durable_with_their_names_and_what_they_name_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What ours goes on from must not be gone after a power cut while ours is there,
    nor be an entry of files without bytes."""
    writer = Writer(str(tmp_path))
    writer.add(0, 0, 10)
    sync_entries(load(writer.path), 1)
    deltalake.DeltaTable(writer.path).delete("offset = 4")
    [file] = load(writer.path).files
    calls = SystemCalls(monkeypatch, Path(writer.path))
    sync_entries(load(writer.path), 2)
    log, directory = "_delta_log", os.path.dirname(file)
    assert calls.events == [
        f"sync {file}", f"sync directory {directory}", "sync directory .",
        f"sync {log}/{2:020d}.json", f"sync directory {log}",
    ]  # fmt: skip
    calls.clear()
    writer.add(0, 10, 20)
    sync_entries(load(writer.path), 3)
    assert calls.of(file) == []
