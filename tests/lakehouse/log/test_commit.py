"""Commits: exactly once, whoever tries again, and durable when they return."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import deltalake
import pytest

from lakehouse import properties
from lakehouse.errors import CommitLost, CommitRefused, RowsInTheWay, TableMissing
from lakehouse.log import library
from lakehouse.log.actions import parse_commit
from lakehouse.log.commit import (
    COMMIT_ATTEMPTS,
    commit_files,
    create_table,
    remove_files,
)
from lakehouse.log.delta_log import entry_path, load, read_entry, table_ends
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


def once(action: Callable[[], object]) -> Callable[[], None]:
    """A step that does something the first time only."""
    left = [action]

    def step() -> None:
        if left:
            left.pop()()

    return step


def test_rows_of_an_owner_are_noticed_however_late_they_come(writer: Writer) -> None:
    """He inserts them between the look at the table and the commit."""
    writer.add(0, 0, 10)
    files = [write_file(writer.path, "late", rows(0, range(10, 20)))]

    def inserts() -> None:
        deltalake.write_deltalake(writer.path, rows(0, [15]), mode="append")

    with pytest.raises(RowsInTheWay, match="partition 0 has rows at offsets 15 to 15"):
        commit_files(
            writer.path, TOPIC_ID, 2, {0: (10, 20)}, files, on_written=once(inserts)
        )
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


@pytest.mark.parametrize("slower_round", [2, 7])
def test_of_two_compactors_one_wins(writer: Writer, slower_round: int) -> None:
    """Both looked at the same version; the slower one must not land."""
    writer.add(0, 0, 10)
    files = [write_file(writer.path, n, rows(0, range(10, 20))) for n in ("a", "b")]
    span = {0: (10, 20)}

    def wins() -> None:
        commit_files(writer.path, TOPIC_ID, 2, span, files[:1])

    with pytest.raises(CommitRefused, match="partition 0 ends at 20, not at 10"):
        commit_files(
            writer.path, TOPIC_ID, slower_round, span, files[1:], on_written=once(wins)
        )
    assert len(load(writer.path).files) == 2
    assert load(writer.path).version == 2


def test_ends_outlive_the_owners_delete(writer: Writer) -> None:
    writer.add(0, 0, 100)
    deltalake.DeltaTable(writer.path).delete("offset >= 50")
    assert table_ends(load(writer.path)) == {0: 100}
    writer.add(0, 100, 110)


def test_a_commit_lands_beside_the_owners_optimize(writer: Writer) -> None:
    writer.add(0, 0, 10)
    writer.add(0, 10, 20)
    owner = deltalake.DeltaTable(writer.path)
    files = [write_file(writer.path, "new", rows(0, range(20, 30)))]
    committed = commit_files(
        writer.path, TOPIC_ID, 3, {0: (20, 30)}, files,
        on_written=once(lambda: owner.optimize.compact()),
    )  # fmt: skip
    assert committed.version == 4
    table = deltalake.DeltaTable(writer.path).to_pyarrow_table()
    assert sorted(table["offset"].to_pylist()) == list(range(30))


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
    assert seen[done - 1].startswith("_delta_log/.entry-00000000000000000001-")
    assert seen[done + 1 :] == ["_delta_log"]


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
    """Between the look at the table and the commit."""
    writer.add(0, 0, 10)
    (old,) = load(writer.path).files.values()
    rewrite = once(lambda: deltalake.DeltaTable(writer.path).delete("offset = 3"))
    link = os.link

    def late(source: str, target: str) -> None:
        rewrite()
        link(source, target)

    monkeypatch.setattr(os, "link", late)
    with pytest.raises(CommitRefused, match="not in it any more"):
        remove_files(
            writer.path, TOPIC_ID, [(old.path, 0, old.size)], now_ms=1, log_starts={}
        )
    assert len(load(writer.path).files) == 1


def test_a_checkpoint_tells_what_the_entries_below_it_did(writer: Writer) -> None:
    for n in range(11):
        writer.add(0, n * 10, n * 10 + 10)
    library.checkpoint(writer.path, 10)
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


def engine(path: str, version: int) -> str:
    info = parse_commit(version, read_entry(path, version)).info
    return str(info["engineInfo"])


def late_commit(writer: Writer, action: Callable[[], object]) -> int:
    """Commit [10, 20) while somebody does something just before it; its version."""
    file = write_file(writer.path, "late", rows(0, range(10, 20)))
    return commit_files(
        writer.path, TOPIC_ID, 9, {0: (10, 20)}, [file], on_written=once(action)
    ).version


def test_a_table_with_more_than_plain_properties_is_the_librarys(
    writer: Writer,
) -> None:
    writer.add(0, 0, 10)
    owner = deltalake.DeltaTable(writer.path)
    owner.alter.add_constraint({"positive": "offset >= 0"})
    assert writer.add(0, 10, 20).version == 3
    assert engine(writer.path, 1) == "Lakelog"
    assert engine(writer.path, 3).startswith("delta-rs")
    assert table_ends(load(writer.path)) == {0: 20}
    assert deltalake.DeltaTable(writer.path).to_pyarrow_table().num_rows == 20


def test_what_an_owner_turns_on_just_before_a_commit_is_kept_by_it(
    writer: Writer,
) -> None:
    writer.add(0, 0, 10)
    owner = deltalake.DeltaTable(writer.path)
    constraint = {"positive": "offset >= 0"}
    version = late_commit(writer, lambda: owner.alter.add_constraint(constraint))
    assert version == 3
    assert engine(writer.path, 3).startswith("delta-rs")


def test_what_nobody_here_can_write_is_refused_just_before_a_commit(
    writer: Writer,
) -> None:
    writer.add(0, 0, 10)
    owner = deltalake.DeltaTable(writer.path)
    features = [
        deltalake.TableFeatures.RowTracking,
        deltalake.TableFeatures.DomainMetadata,
    ]

    def turn_on() -> None:
        owner.alter.add_feature(features, allow_protocol_versions_increase=True)

    with pytest.raises(CommitRefused, match="Unsupported table features required"):
        late_commit(writer, turn_on)
    assert load(writer.path).version == 2


def test_properties_that_an_owner_sets_just_before_a_commit_are_looked_at(
    writer: Writer,
) -> None:
    writer.add(0, 0, 10)
    owner = deltalake.DeltaTable(writer.path)
    forget = {"delta.setTransactionRetentionDuration": "interval 1 days"}
    with pytest.raises(CommitRefused, match="setTransactionRetentionDuration"):
        late_commit(writer, lambda: owner.alter.set_table_properties(forget))
    assert load(writer.path).version == 2


def test_whoever_is_passed_all_the_time_gives_up(writer: Writer) -> None:
    writer.add(0, 0, 10)
    offsets = iter(range(1_000))

    def insert() -> None:
        table = rows(1, [next(offsets)])
        deltalake.write_deltalake(writer.path, table, mode="append")

    with pytest.raises(CommitRefused, match="others commit faster all the time"):
        commit_files(writer.path, TOPIC_ID, 2, {0: (10, 20)}, [], on_written=insert)
    assert table_ends(load(writer.path)) == {0: 10}
    assert load(writer.path).version == 1 + COMMIT_ATTEMPTS


def test_a_commit_that_another_writer_renamed_over_is_told_to_be_lost(
    writer: Writer, tmp_path: Path
) -> None:
    """Spark's LocalLogStore looks, and then renames."""
    writer.add(0, 0, 10)
    theirs = tmp_path / "theirs"
    theirs.write_bytes(read_entry(writer.path, 1))

    def rename() -> None:
        os.replace(theirs, entry_path(writer.path, 2))

    with pytest.raises(CommitLost):
        commit_files(writer.path, TOPIC_ID, 2, {0: (10, 20)}, [], on_committed=rename)


def test_a_log_that_was_replaced_is_not_gone_on_from(writer: Writer) -> None:
    writer.add(0, 0, 10)
    snapshot = load(writer.path)
    text = read_entry(writer.path, 1)
    os.unlink(entry_path(writer.path, 1))
    with pytest.raises(CommitRefused, match="was replaced"):
        commit_files(writer.path, TOPIC_ID, 2, {0: (10, 20)}, [], snapshot=snapshot)
    Path(entry_path(writer.path, 1)).write_bytes(text)
    with pytest.raises(CommitRefused, match="was replaced"):
        commit_files(writer.path, TOPIC_ID, 2, {0: (10, 20)}, [], snapshot=snapshot)
    assert load(writer.path).version == 1


def test_a_table_that_was_made_anew_below_its_checkpoint_gets_no_hole(
    writer: Writer, tmp_path: Path
) -> None:
    for n in range(3):
        writer.add(0, n * 10, n * 10 + 10)
    library.checkpoint(writer.path, 3)
    snapshot = load(writer.path)
    shutil.rmtree(writer.path)
    create_table(str(tmp_path), "orders", TOPIC_ID, 2)
    with pytest.raises(CommitRefused, match="was replaced"):
        commit_files(writer.path, TOPIC_ID, 4, {0: (30, 40)}, [], snapshot=snapshot)
    assert load(writer.path).version == 0


def test_nothing_is_put_behind_a_torn_entry(writer: Writer) -> None:
    writer.add(0, 0, 10)
    Path(entry_path(writer.path, 2)).write_bytes(b'{"commitInfo"')
    with pytest.raises(CommitRefused, match="is torn"):
        commit_files(writer.path, TOPIC_ID, 2, {0: (10, 20)}, [])


def test_a_snapshot_that_follows_knows_what_was_committed(writer: Writer) -> None:
    snapshot = load(writer.path)
    for n in range(3):
        span = {0: (n * 10, n * 10 + 10)}
        file = write_file(writer.path, f"f{n}", rows(0, range(*span[0])))
        done = commit_files(
            writer.path, TOPIC_ID, n + 1, span, [file], snapshot=snapshot
        )
        assert done.version == snapshot.version == n + 1
        assert table_ends(snapshot) == {0: n * 10 + 10}
    fresh = load(writer.path)
    assert (fresh.files, fresh.transactions) == (snapshot.files, snapshot.transactions)


def test_a_row_that_an_owner_took_out_again_is_in_nobodys_way(writer: Writer) -> None:
    writer.add(0, 0, 10)
    snapshot = load(writer.path)
    deltalake.write_deltalake(writer.path, rows(0, [15, 99]), mode="append")
    file = write_file(writer.path, "new", rows(0, range(10, 20)))
    again = (writer.path, TOPIC_ID, 2, {0: (10, 20)}, [file])
    with pytest.raises(RowsInTheWay):
        commit_files(*again, snapshot=snapshot)
    deltalake.DeltaTable(writer.path).delete("offset = 15 or offset = 99")
    assert commit_files(*again, snapshot=snapshot).version == 4


def test_an_owner_reads_in_the_history_what_a_round_added(writer: Writer) -> None:
    writer.add(0, 0, 10)
    [said] = deltalake.DeltaTable(writer.path).history(1)
    assert (said["version"], said["operation"]) == (1, "LAKELOG COMPACT")
    assert said["operationMetrics"]["numOutputRows"] == "10"
    assert (said["readVersion"], said["isBlindAppend"]) == (0, True)
    assert said["lakelog.ranges"] == {"0": [0, 10]}
