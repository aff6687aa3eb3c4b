"""Many who believe that they are the one, and an owner: each row is there once."""

import os
import threading
from pathlib import Path
from typing import Any

import deltalake
import pytest

from lakehouse.errors import CommitRefused
from lakehouse.log.commit import commit_files
from lakehouse.log.delta_log import entry_versions, follow, load, table_ends
from tests.support.tables import TOPIC_ID, Writer, rows, write_file

COMPACTORS, ROUNDS = 4, 25


class Compactor(threading.Thread):
    """Follows the table, and adds ten rows where it ends, whoever else does."""

    def __init__(self, path: str, name: str, start: threading.Barrier) -> None:
        super().__init__()
        self._path, self._prefix, self._start_together = path, name, start
        self.tried, self.won, self.failure = 0, 0, ""

    def run(self) -> None:
        try:
            self._work()
        except Exception as error:
            self.failure = repr(error)

    def _work(self) -> None:
        snapshot = load(self._path)
        self._start_together.wait()
        while (end := table_ends(snapshot).get(0, 0)) < ROUNDS * 10:
            name = f"{self._prefix}-{self.tried}"
            self.tried += 1
            file = write_file(self._path, name, rows(0, range(end, end + 10)))
            number = snapshot.transactions.get(TOPIC_ID, 0) + 1
            try:
                done = commit_files(
                    self._path, TOPIC_ID, number, {0: (end, end + 10)}, [file],
                    snapshot=snapshot,
                )  # fmt: skip
                self.won += not done.was_there
            except CommitRefused:
                follow(snapshot)


def offsets(table: Any, partition: int) -> list[int]:
    """The offsets of a partition's rows, in order."""
    pairs = zip(
        table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True
    )
    return sorted(offset for p, offset in pairs if p == partition)


def act_as_owner(path: str, start: threading.Barrier) -> None:
    """Everything that he may do, while they commit; some of it may be refused."""
    start.wait()
    for n in range(8):
        try:
            table = deltalake.DeltaTable(path)
            deltalake.write_deltalake(path, rows(1, [n]), mode="append")
            table.alter.set_table_properties({"delta.targetFileSize": str(n + 1)})
            table.optimize.compact()
            deltalake.DeltaTable(path).delete(f"partition = 1 AND offset = {n - 3}")
        except deltalake.exceptions.DeltaError:
            continue


def test_whoever_commits_beside_whom_each_row_is_there_once(tmp_path: Path) -> None:
    path = Writer(str(tmp_path)).path
    start = threading.Barrier(COMPACTORS + 1)
    compactors = [Compactor(path, f"c{n}", start) for n in range(COMPACTORS)]
    for compactor in compactors:
        compactor.start()
    act_as_owner(path, start)
    for compactor in compactors:
        compactor.join()
    assert [compactor.failure for compactor in compactors] == [""] * COMPACTORS
    assert sum(compactor.won for compactor in compactors) == ROUNDS
    versions = entry_versions(path)
    assert versions == list(range(len(versions)))
    table = deltalake.DeltaTable(path).to_pyarrow_table()
    assert offsets(table, 0) == list(range(ROUNDS * 10))
    theirs = offsets(table, 1)
    assert len(theirs) == len(set(theirs))
    assert not [n for n in os.listdir(Path(path) / "_delta_log") if n.endswith(".tmp")]


@pytest.mark.parametrize("kind", ["optimize", "delete", "append", "properties"])
def test_a_commit_lands_behind_whatever_an_owner_did(tmp_path: Path, kind: str) -> None:
    """Each of these just before the entry gets its name; nothing of either is lost."""
    writer = Writer(str(tmp_path))
    for n in range(3):
        writer.add(0, n * 10, n * 10 + 10)
    owner, done = deltalake.DeltaTable(writer.path), list[str]()
    acts = {
        "optimize": lambda: owner.optimize.compact(),
        "delete": lambda: owner.delete("offset = 5"),
        "append": lambda: deltalake.write_deltalake(
            writer.path, rows(1, [5]), mode="append"
        ),
        "properties": lambda: owner.alter.set_table_properties(
            {"delta.targetFileSize": "1000"}
        ),
    }

    def act() -> None:
        if not done:
            done.append(kind)
            acts[kind]()

    file = write_file(writer.path, "late", rows(0, range(30, 40)))
    committed = commit_files(
        writer.path, TOPIC_ID, 9, {0: (30, 40)}, [file], on_written=act
    )
    assert committed.version == 5
    table = deltalake.DeltaTable(writer.path).to_pyarrow_table()
    wanted = set(range(40)) - ({5} if kind == "delete" else set())
    assert offsets(table, 0) == sorted(wanted)
    assert table_ends(load(writer.path)) == {0: 40}
