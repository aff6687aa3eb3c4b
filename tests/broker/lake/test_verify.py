"""What a table is said to hold was read from the disk, and synced before it is said."""

import errno
import os
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from broker.lake.verify import Verifier
from lakehouse.delta_log import entry_path, load
from tests.support.syscalls import SystemCalls, in_order
from tests.support.tables import TOPIC_ID, Writer


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


def test_a_table_whose_sync_failed_has_no_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Writer(str(tmp_path))
    writer.add(0, 0, 10)
    verifier = Verifier(TOPIC_ID, writer.path)

    def fails(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fails)
        assert verifier.ends() is None
    assert verifier.ends() is None  # the kernel may say yes the second time


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


def test_a_table_that_cannot_be_verified_is_told_once(tmp_path: Path) -> None:
    """It is tried twice a second, and its file may be gone for good."""
    writer = Writer(str(tmp_path))
    writer.add(0, 0, 10)
    (file,) = load(writer.path).files
    path = Path(writer.path, file)
    verifier = Verifier(TOPIC_ID, writer.path)
    with capture_logs() as told:
        for _ in range(2):
            path.rename(tmp_path / "away")
            assert [verifier.ends() for _ in range(3)] == [None] * 3
            (tmp_path / "away").rename(path)
            assert verifier.ends() == {0: 10}
            verifier = Verifier(TOPIC_ID, writer.path)
    assert [one["event"] for one in told] == ["table not verified"] * 2
