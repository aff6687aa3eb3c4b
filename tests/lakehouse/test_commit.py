"""Commits: exactly once, whoever tries again, and durable when they return."""

import json
import os
from pathlib import Path

import deltalake
import pytest

from lakehouse import commit as commits
from lakehouse import properties
from lakehouse.actions import parse_commit
from lakehouse.commit import commit_files, create_table, remove_files
from lakehouse.delta_log import entry_path, load, read_entry, table_ends
from lakehouse.errors import CommitRefused, RowsInTheWay, TableMissing
from tests.support.tables import TOPIC_ID, Writer, rows, write_file


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    return Writer(str(tmp_path))


def test_a_round_moves_the_ends_and_says_what_it_added(writer: Writer) -> None:
    committed = writer.add(0, 0, 250)
    snapshot = load(writer.path)
    assert committed == (1, False)
    assert table_ends(snapshot) == {0: 250}
    assert snapshot.transactions[TOPIC_ID] == 1
    entry = [json.loads(line) for line in read_entry(writer.path, 1).splitlines()]
    assert entry[0]["commitInfo"][properties.RANGES] == {"0": [0, 250]}


def test_the_log_says_the_bounds_of_each_file(writer: Writer) -> None:
    writer.add(1, 40, 90)
    (file,) = load(writer.path).files.values()
    assert (file.partition, file.rows) == (1, 50)
    assert (file.first_offset, file.last_offset) == (40, 89)
    assert file.timestamp_max_ms - file.timestamp_min_ms == 49
    assert file.size == os.path.getsize(os.path.join(writer.path, file.relative_path))


def test_a_round_says_how_many_records_the_log_had(writer: Writer) -> None:
    file = write_file(writer.path, "some", rows(0, range(4)))
    commit_files(writer.path, TOPIC_ID, 1, {0: (0, 10)}, [file], records={0: 4})
    commit_files(writer.path, TOPIC_ID, 2, {0: (10, 20)}, [])
    assert parse_commit(1, read_entry(writer.path, 1)).rows == {0: 4}
    assert parse_commit(2, read_entry(writer.path, 2)).rows == {}


def test_repeating_a_round_changes_nothing(writer: Writer) -> None:
    writer.add(0, 0, 10)
    file = write_file(writer.path, "again", rows(0, range(10)))
    again = commit_files(writer.path, TOPIC_ID, 1, {0: (0, 10)}, [file])
    assert again.was_there
    assert len(load(writer.path).files) == 1


def test_a_range_must_begin_where_the_table_ends(writer: Writer) -> None:
    writer.add(0, 0, 10)
    for first in (5, 11):
        with pytest.raises(CommitRefused):
            writer.add(0, first, 20)
    assert table_ends(load(writer.path)) == {0: 10}


def forget_ends(path: str) -> None:
    """As Spark's checkpoints do once ``delta.setTransactionRetentionDuration`` is set,
    and SHALLOW CLONE for its target."""
    for version in range(load(path).version + 1):
        lines = read_entry(path, version).splitlines(keepends=True)
        kept = [line for line in lines if not line.startswith(b'{"txn"')]
        Path(entry_path(path, version)).write_bytes(b"".join(kept))


def test_rows_whose_end_nobody_tells_are_not_added_again(writer: Writer) -> None:
    writer.add(0, 0, 10)
    writer.add(0, 10, 20)
    forget_ends(writer.path)
    for first, end in ((0, 10), (0, 30), (19, 30)):
        file = write_file(writer.path, f"{first}-{end}", rows(0, range(first, end)))
        with pytest.raises(CommitRefused, match="partition 0 has rows at offsets"):
            commit_files(writer.path, TOPIC_ID, 3, {0: (first, end)}, [file])
    assert len(load(writer.path).files) == 2
    writer.add(1, 5, 10)
    writer.add(0, 20, 30)
    assert table_ends(load(writer.path)) == {0: 30, 1: 10}


def test_a_table_that_would_forget_its_ends_takes_no_commit(writer: Writer) -> None:
    writer.add(0, 0, 10)
    owners = deltalake.DeltaTable(writer.path)
    forgetting = {"delta.setTransactionRetentionDuration": "interval 30 days"}
    owners.alter.set_table_properties(forgetting)
    with pytest.raises(CommitRefused, match="setTransactionRetentionDuration"):
        writer.add(0, 10, 20)
    assert table_ends(load(writer.path)) == {0: 10}


def test_rows_of_an_owner_are_noticed_however_late_they_come(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """He inserts them between the look at the table and the commit."""
    writer.add(0, 0, 10)
    looked = deltalake.DeltaTable(writer.path)
    deltalake.write_deltalake(writer.path, rows(0, [15]), mode="append")
    monkeypatch.setattr(commits, "_open", lambda *_: looked)
    with pytest.raises(RowsInTheWay, match="partition 0 has rows at offsets 15 to 15"):
        writer.add(0, 10, 20)
    assert table_ends(load(writer.path)) == {0: 10}


def test_an_old_round_number_with_new_rows_is_refused(writer: Writer) -> None:
    writer.add(0, 0, 10)
    with pytest.raises(CommitRefused):
        commit_files(writer.path, TOPIC_ID, 1, {0: (10, 20)}, [])


def test_a_first_range_may_begin_above_zero(writer: Writer) -> None:
    writer.add(0, 1000, 1010)
    assert table_ends(load(writer.path)) == {0: 1010}


def test_a_range_without_rows_moves_the_end(writer: Writer) -> None:
    writer.add(0, 0, 10)
    writer.add(0, 10, 30, missing=range(10, 30))
    snapshot = load(writer.path)
    assert table_ends(snapshot) == {0: 30}
    assert len(snapshot.files) == 1


def test_of_two_compactors_one_wins(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both looked at the same version; the slower one must not land."""
    writer.add(0, 0, 10)
    files = [write_file(writer.path, n, rows(0, range(10, 20))) for n in ("a", "b")]
    looked = deltalake.DeltaTable(writer.path)
    commit_files(writer.path, TOPIC_ID, 2, {0: (10, 20)}, files[:1])
    monkeypatch.setattr(commits, "_open", lambda *_: looked)
    with pytest.raises(CommitRefused):
        commit_files(writer.path, TOPIC_ID, 2, {0: (10, 20)}, files[1:])
    assert len(load(writer.path).files) == 2


def test_of_two_compactors_with_other_rounds_one_wins(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [write_file(writer.path, n, rows(0, range(10))) for n in ("a", "b")]
    looked = deltalake.DeltaTable(writer.path)
    commit_files(writer.path, TOPIC_ID, 1, {0: (0, 10)}, files[:1])
    monkeypatch.setattr(commits, "_open", lambda *_: looked)
    with pytest.raises(CommitRefused):
        commit_files(writer.path, TOPIC_ID, 7, {0: (0, 10)}, files[1:])


def test_ends_outlive_the_owners_delete(writer: Writer) -> None:
    writer.add(0, 0, 100)
    deltalake.DeltaTable(writer.path).delete("offset >= 50")
    assert table_ends(load(writer.path)) == {0: 100}
    writer.add(0, 100, 110)


def test_a_commit_lands_beside_the_owners_optimize(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer.add(0, 0, 10)
    writer.add(0, 10, 20)
    looked = deltalake.DeltaTable(writer.path)
    deltalake.DeltaTable(writer.path).optimize.compact()
    monkeypatch.setattr(commits, "_open", lambda *_: looked)
    assert writer.add(0, 20, 30).version == 4


def test_another_topics_table_is_refused(writer: Writer) -> None:
    with pytest.raises(CommitRefused, match="belongs to"):
        commit_files(writer.path, "f" * 32, 1, {0: (0, 1)}, [])


def test_no_table_is_said(tmp_path: Path) -> None:
    with pytest.raises(TableMissing):
        commit_files(str(tmp_path / "none"), TOPIC_ID, 1, {0: (0, 1)}, [])


def test_a_file_of_another_size_is_refused(writer: Writer) -> None:
    file = write_file(writer.path, "a", rows(0, range(10)))
    with pytest.raises(OSError, match="bytes"):
        commit_files(writer.path, TOPIC_ID, 1, {0: (0, 10)}, [file._replace(size=1)])
    assert load(writer.path).version == 0


def test_files_are_synced_before_the_entry_and_the_entry_after(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    sync = os.fsync

    def watching(descriptor: int) -> None:
        target = os.readlink(f"/proc/self/fd/{descriptor}")
        seen.append(os.path.relpath(target, writer.path))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", watching)
    file = write_file(writer.path, "a", rows(0, range(10)))
    commit_files(
        writer.path,
        TOPIC_ID,
        1,
        {0: (0, 10)},
        [file],
        on_committed=lambda: seen.append("committed"),
    )
    done = seen.index("committed")
    assert {file.path, "partition=0", "."} <= set(seen[:done])
    assert {os.path.relpath(entry_path(writer.path, 1), writer.path), "_delta_log"} <= (
        set(seen[done:])
    )


def test_files_leave_the_table_and_ends_stay(writer: Writer) -> None:
    writer.add(0, 0, 10)
    writer.add(0, 10, 20)
    old = min(load(writer.path).files.values(), key=lambda f: f.first_offset)
    remove_files(
        writer.path,
        TOPIC_ID,
        [(old.path, 0, old.size)],
        now_ms=1_700_000_000_000,
        log_starts={0: 10},
    )
    snapshot = load(writer.path)
    assert table_ends(snapshot) == {0: 20}
    assert snapshot.removed == {old.path: 1_700_000_000_000}
    assert deltalake.DeltaTable(writer.path).to_pyarrow_table().num_rows == 10


def test_a_file_that_the_owner_rewrote_is_not_removed(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer.add(0, 0, 10)
    (old,) = load(writer.path).files.values()
    looked = deltalake.DeltaTable(writer.path)
    deltalake.DeltaTable(writer.path).delete("offset = 3")
    monkeypatch.setattr(commits, "_open", lambda *_: looked)
    with pytest.raises(CommitRefused):
        remove_files(
            writer.path, TOPIC_ID, [(old.path, 0, old.size)], now_ms=1, log_starts={}
        )


def test_every_hundredth_version_is_a_checkpoint(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(properties, "CHECKPOINT_INTERVAL", 5)
    for n in range(11):
        writer.add(0, n * 10, n * 10 + 10)
    log = os.path.join(writer.path, "_delta_log")
    for version in range(10):  # as log retention will do one day
        os.unlink(entry_path(writer.path, version))
    assert "00000000000000000010.checkpoint.parquet" in os.listdir(log)
    snapshot = load(writer.path)
    assert (snapshot.version, table_ends(snapshot)) == (11, {0: 110})
    assert len(snapshot.files) == 11


def test_creating_twice_is_creating_once(writer: Writer, tmp_path: Path) -> None:
    assert create_table(str(tmp_path), "orders", TOPIC_ID, 2) == writer.path
    assert load(writer.path).version == 0


def test_a_table_explains_itself_and_keeps_the_oldest_protocol(writer: Writer) -> None:
    snapshot = load(writer.path)
    assert (snapshot.protocol.reader, snapshot.protocol.writer) == (1, 2)
    assert snapshot.configuration[properties.TOPIC] == "orders"
    assert snapshot.configuration[properties.TOPIC_ID] == TOPIC_ID
    assert snapshot.configuration[properties.PARTITIONS] == "2"
    assert snapshot.metadata is not None
    assert snapshot.metadata.partition_columns == ("partition",)
