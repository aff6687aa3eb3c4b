"""A VACUUM that retains nothing takes no file that is about to be committed."""

import errno
import os
from pathlib import Path

import deltalake
import pyarrow.parquet as pq
import pytest

from lakehouse.errors import CommitRefused
from lakehouse.in_flight import AHEAD_MS, begin, hidden, is_begun, is_over, keep, show
from lakehouse.log.commit import commit_files
from lakehouse.log.delta_log import load
from lakehouse.new_file import NewFile
from tests.support.spark_reader import SparkReader
from tests.support.tables import TOPIC_ID, Writer, describe_file, rows, write_file

NAME = "partition=0/00000000000000000010-00000000000000000020-1-2-3.parquet"


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    writer = Writer(str(tmp_path))
    writer.add(0, 0, 10)
    return writer


def begun(writer: Writer) -> str:
    """A file that is being written; where it will be."""
    path = os.path.join(writer.path, NAME)
    pq.write_table(rows(0, range(10, 20)), begin(path))
    return path


def written(writer: Writer) -> NewFile:
    show(begun(writer))
    return describe_file(writer.path, NAME, 0)


def vacuum(writer: Writer) -> list[str]:
    """As delta-rs does it; what it deleted."""
    table = deltalake.DeltaTable(writer.path)
    return table.vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)


def add(writer: Writer, file: NewFile) -> None:
    commit_files(writer.path, TOPIC_ID, 2, {0: (10, 20)}, [file])


def test_it_is_not_seen_while_it_is_written_nor_before_it_is_committed(
    writer: Writer,
) -> None:
    theirs = write_file(writer.path, "theirs", rows(0, range(50, 60)))
    path = begun(writer)
    assert vacuum(writer) == [theirs.path], "what nobody protects goes"
    before = show(path)
    assert vacuum(writer) == []
    add(writer, describe_file(writer.path, NAME, 0))
    assert vacuum(writer) == []
    assert len(deltalake.DeltaTable(writer.path).to_pyarrow_table()) == 20
    assert not os.path.exists(hidden(path))
    assert before.st_size == os.path.getsize(path)
    ahead_ms = (os.stat(path).st_mtime_ns - before.st_mtime_ns) // 1_000_000
    assert AHEAD_MS <= ahead_ms < 2 * AHEAD_MS


def test_a_commit_protects_what_waited_for_it_for_long(writer: Writer) -> None:
    file = written(writer)
    path = os.path.join(writer.path, NAME)
    os.utime(path, (1, 1))
    listed = deltalake.DeltaTable(writer.path)  # a VACUUM that began before the commit
    add(writer, file)
    gone = listed.vacuum(0, dry_run=True, enforce_retention_duration=False, full=True)
    assert gone == []


def test_it_is_told_from_what_has_its_place(writer: Writer) -> None:
    below = os.path.relpath(hidden(os.path.join(writer.path, NAME)), writer.path)
    assert (is_begun(below), is_begun(NAME)) == (True, False)


def test_it_is_known_how_long_a_file_is_safe_from_who_began_before_its_commit(
    writer: Writer,
) -> None:
    path = begun(writer)
    written_ms = show(path).st_mtime_ns // 1_000_000
    assert not is_over(path, written_ms)
    until_ns = os.stat(path).st_mtime_ns - AHEAD_MS * 1_000_000
    os.utime(path, ns=(until_ns, until_ns))
    assert not is_over(path, written_ms), "as of one that nobody could make younger"
    assert is_over(path, written_ms - AHEAD_MS)


def test_a_file_that_went_all_the_same_is_not_committed(writer: Writer) -> None:
    file = written(writer)
    path = os.path.join(writer.path, NAME)

    def take() -> None:
        os.unlink(path)

    with pytest.raises(CommitRefused, match="went meanwhile"):
        commit_files(writer.path, TOPIC_ID, 2, {0: (10, 20)}, [file], on_written=take)
    assert len(load(writer.path).files) == 1


def test_what_another_user_wrote_is_committed_as_he_left_it(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(writer)
    path = os.path.join(writer.path, NAME)
    before_ns = os.stat(path).st_mtime_ns

    def refused(path: str, *_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted", path)

    monkeypatch.setattr(os, "utime", refused)
    add(writer, file)
    assert len(load(writer.path).files) == 2
    assert os.stat(path).st_mtime_ns == before_ns


def test_what_is_not_there_cannot_be_kept(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        keep(str(tmp_path / "none.parquet"))


@pytest.mark.spark
def test_spark_passes_over_it_too(writer: Writer, analyst: SparkReader) -> None:
    theirs = write_file(writer.path, "theirs", rows(0, range(50, 60)))
    analyst.ask("SET spark.databricks.delta.retentionDurationCheck.enabled = false")
    analyst.ask("SET spark.sql.shuffle.partitions = 2")
    file = written(writer)
    other = begun(writer)
    analyst.ask(f"VACUUM delta.`{writer.path}` RETAIN 0 HOURS")
    assert os.path.exists(hidden(other))
    assert not os.path.exists(os.path.join(writer.path, theirs.path))
    add(writer, file)
    found = analyst.ask(f"SELECT count(*) FROM delta.`{writer.path}`")
    assert [tuple(row) for row in found] == [(20,)]
