"""A commit is durable in the order that a power cut needs: data, entry, directory."""

import os
from pathlib import Path

import pytest

from lakehouse.commit import commit_files, create_table, remove_files
from lakehouse.delta_log import load
from lakehouse.durable import sync_files
from tests.support.syscalls import SystemCalls
from tests.support.tables import TOPIC_ID, Writer, rows, write_file

ENTRY = "_delta_log/00000000000000000001.json"


def test_files_are_synced_and_every_directory_on_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_bytes(b"text")
    calls = SystemCalls(monkeypatch, tmp_path)
    sync_files(str(tmp_path), ["a/b/file"])
    assert calls.events == [
        "sync a/b/file", "sync directory a/b", "sync directory a", "sync directory .",
    ]  # fmt: skip


def test_a_commit_syncs_its_files_then_its_entry_then_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(create_table(str(tmp_path), "orders", TOPIC_ID, 2))
    file = write_file(str(path), "some", rows(0, range(10)))
    calls = SystemCalls(monkeypatch, path)
    there: list[list[str]] = []
    commit_files(
        str(path), TOPIC_ID, 1, {0: (0, 10)}, [file],
        on_committed=lambda: there.append(list(calls.events)),
    )  # fmt: skip
    before_the_entry = [
        f"sync {file.path}", "sync directory partition=0", "sync directory .",
    ]  # fmt: skip
    assert [one for one in there[0] if one.startswith("sync")] == before_the_entry
    after = calls.events[len(there[0]) :]
    assert after[-2:] == [f"sync {ENTRY}", "sync directory _delta_log"]
    assert (path / ENTRY).exists()


def test_retention_syncs_its_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Writer(str(tmp_path))
    writer.add(0, 0, 10)
    (file,) = load(writer.path).files.values()
    calls = SystemCalls(monkeypatch, Path(writer.path))
    gone = [(file.path, file.partition, file.size)]
    version = remove_files(
        writer.path, TOPIC_ID, gone, now_ms=1, log_starts={0: 10}
    ).version
    entry = f"_delta_log/{version:020d}.json"
    assert calls.events[-2:] == [f"sync {entry}", "sync directory _delta_log"]
    assert os.path.exists(os.path.join(writer.path, entry))
