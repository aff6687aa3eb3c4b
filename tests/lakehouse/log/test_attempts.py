"""A commit is judged on what the table is when its entry is put."""

import os
from pathlib import Path

import deltalake
import pytest

from lakehouse.errors import CommitRefused
from lakehouse.log import next_entry
from lakehouse.log.attempts import COMMIT_ATTEMPTS, commit_judged, current
from lakehouse.log.commit import commit_files
from lakehouse.log.delta_log import LOG_DIRECTORY, entry_path, load
from tests.support.compacted_log import compact_log
from tests.support.partitioned_anew import columns_anew, partition_anew
from tests.support.tables import TOPIC_ID, Writer


@pytest.fixture
def writer(tmp_path):
    return Writer(str(tmp_path))


def test_it_is_judged_anew_behind_whoever_was_faster(writer):
    table, judged = load(writer.path), []

    def put(version):
        if len(judged) < 3:
            writer.add(0, version * 10, version * 10 + 10)
            return False
        return True

    done = commit_judged(
        table, TOPIC_ID, lambda: judged.append(table.version), put, put
    )
    assert judged == [0, 1, 2]
    assert done.version == 3


def test_it_gives_up_on_a_table_that_never_rests(writer):
    table = load(writer.path)

    def put(version):
        writer.add(0, version * 10, version * 10 + 10)
        return False

    with pytest.raises(CommitRefused, match="faster all the time"):
        commit_judged(table, TOPIC_ID, lambda: None, put, put)
    assert load(writer.path).version == COMMIT_ATTEMPTS


def test_a_refusal_is_the_answer_when_the_log_stands_still(writer):
    def put(version):
        raise CommitRefused("no")

    with pytest.raises(CommitRefused, match="no"):
        commit_judged(load(writer.path), TOPIC_ID, lambda: None, put, put)


def test_the_table_of_another_topic_is_refused(writer):
    with pytest.raises(CommitRefused, match="belongs to topic id"):
        current(writer.path, "f" * 32, None)
    assert current(writer.path, TOPIC_ID, None).version == 0
    columns_anew(writer.path, lambda fields: fields.pop())
    with pytest.raises(CommitRefused, match="belongs to topic id"):
        current(writer.path, "f" * 32, None)


@pytest.mark.parametrize("is_followed", [False, True])
@pytest.mark.parametrize("is_librarys", [False, True])
def test_what_was_noted_of_an_entry_that_went_is_not_of_the_next_one(
    writer, is_librarys, is_followed
):
    """Its owner put an older state of the log back, say, and not all of it; the
    compactor follows the table meanwhile."""
    if is_librarys:
        deltalake.DeltaTable(writer.path).alter.add_constraint({"sane": "offset >= 0"})
    followed, log = load(writer.path), Path(writer.path) / LOG_DIRECTORY
    version, snapshot = followed.version + 1, followed if is_followed else None
    first = f"{version:020d}"
    for name in (f"{first}.crc", f".{first}.crc.crc", f".{first}.json.crc"):
        (log / name).write_text("{}")
    done = commit_files(writer.path, TOPIC_ID, 1, {0: (0, 10)}, [], snapshot=snapshot)
    assert done.version == version
    assert [name for name in os.listdir(log) if first in name] == [f"{first}.json"]


@pytest.mark.parametrize("is_followed", [False, True])
@pytest.mark.parametrize("is_librarys", [False, True])
def test_a_log_compaction_of_an_entry_that_went_is_not_read_for_the_next_one(
    writer, is_librarys, is_followed
):
    """It came and went beside a compactor that had not followed it."""
    if is_librarys:
        deltalake.DeltaTable(writer.path).alter.add_constraint({"sane": "offset >= 0"})
    writer.add(0, 0, 10)
    followed = load(writer.path)
    version, snapshot = followed.version + 1, followed if is_followed else None
    deltalake.DeltaTable(writer.path).delete("offset = 3")
    stays = compact_log(writer.path, version - 2, version - 1)
    goes = compact_log(writer.path, version - 1, version)
    os.unlink(entry_path(writer.path, version))
    done = commit_files(writer.path, TOPIC_ID, 9, {0: (10, 20)}, [], snapshot=snapshot)
    assert done.version == version
    assert [one.exists() for one in (*stays, *goes)] == [True, True, False, False]


def test_a_log_is_not_listed_for_each_commit(writer, monkeypatch):
    """It may have half a million entries, and only somebody else's act matters."""
    deltalake.DeltaTable(writer.path).create_checkpoint()
    followed, log = load(writer.path), os.path.join(writer.path, LOG_DIRECTORY)
    listed, listings = os.listdir, []
    monkeypatch.setattr(os, "listdir", lambda at: listings.append(at) or listed(at))
    for n in range(4):
        span = {0: (n * 10, n * 10 + 10)}
        commit_files(writer.path, TOPIC_ID, n + 1, span, [], snapshot=followed)
        if n == 0:
            assert log in listings
            listings.clear()
    assert log not in listings


@pytest.mark.parametrize("is_librarys", [False, True])
def test_a_table_of_which_several_entries_went_takes_the_next_one(writer, is_librarys):
    """The library, and an owner with it, opens none with a checksum beyond its end."""
    if is_librarys:
        deltalake.DeltaTable(writer.path).alter.add_constraint({"sane": "offset >= 0"})
    version = load(writer.path).version + 1
    for gone in (version, version + 1):
        Path(entry_path(writer.path, gone)).with_suffix(".crc").write_text("{}")
    assert writer.add(0, 0, 10).version == version
    assert deltalake.DeltaTable(writer.path).version() == version


@pytest.mark.parametrize("is_librarys", [False, True])
def test_what_ours_stands_on_is_synced_before_ours_is_there(
    writer, monkeypatch, is_librarys
):
    """An owner's tools sync nothing. So a whole entry of ours proves all before it."""
    if is_librarys:
        deltalake.DeltaTable(writer.path).alter.add_constraint({"sane": "offset >= 0"})
    writer.add(0, 0, 10)
    deltalake.DeltaTable(writer.path).delete("offset = 3")
    version = load(writer.path).version
    synced = []

    def sync(path):
        synced.append((path, os.path.exists(entry_path(writer.path, version + 1))))

    monkeypatch.setattr(next_entry, "sync_or_write_anew", sync)
    writer.add(0, 10, 20)
    assert (entry_path(writer.path, version), False) in synced
    if is_librarys:  # ours is written with its sync
        assert (entry_path(writer.path, version + 1), True) in synced


def test_what_partitions_nothing_any_more_is_refused_though_it_was_judged(writer):
    """Its owner overwrites it between our look and our entry."""
    table = load(writer.path)

    def put(version):
        partition_anew(writer.path, ["offset"])
        return False

    with pytest.raises(CommitRefused, match="partitioned by offset, not by partition"):
        commit_judged(table, TOPIC_ID, lambda: None, put, put)
    assert load(writer.path).version == 1


def test_what_lost_one_of_our_columns_is_refused_though_it_was_judged(writer):
    table = load(writer.path)

    def put(version):
        columns_anew(writer.path, lambda fields: fields.pop())
        return False

    with pytest.raises(CommitRefused, match="its column headers is missing, and was"):
        commit_judged(table, TOPIC_ID, lambda: None, put, put)
    assert load(writer.path).version == 1
