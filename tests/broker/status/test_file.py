"""A status file is whole, fresh and understood by other versions, or it is none."""

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from broker.status.file import STALE_S, decode, encode, path_of, read, replace
from broker.status.schema import (
    BrokerStatus,
    CompactorStatus,
    OpenTransaction,
    TableState,
    WalState,
)
from broker.storage.files import PosixFiles

STATE = TableState(
    "t", stuck=True, why="it is locked", since_ms=3, request_id=4, ends={0: 7, 1: 9}
)
OPEN = OpenTransaction("t", 1, 2, 3, "x", True, 4, 5)
BROKER = BrokerStatus(
    1,
    "serving",
    problems=("full",),
    wal=WalState(2, 3),
    transactions=(OPEN, OpenTransaction("u", 0)),
    counters={"a_total": 4},
)
COMPACTOR = CompactorStatus(1, "running", stuck=1, tables=(STATE,))


@pytest.mark.parametrize("status", [BROKER, COMPACTOR])
def test_what_is_written_is_read(status: Any, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    path = path_of(tmp_path, type(status))
    replace(PosixFiles(), path, encode(status))
    now_s = path.stat().st_mtime
    assert read(tmp_path, type(status), now_s) == status
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_another_version_is_understood() -> None:
    said = {"state": "running", "from_2040": {"x": [1]}, "tables": [{"topic": "t"}]}
    assert decode(json.dumps(said).encode(), CompactorStatus) == CompactorStatus(
        state="running", tables=(TableState("t"),)
    )


@pytest.mark.parametrize("content", ["", "{", "[1]", "\0", '{"pid": "none"}'])
def test_what_is_no_status(content: str) -> None:
    assert decode(content.encode(), BrokerStatus) is None


def test_a_stale_file_is_of_a_part_that_is_gone(tmp_path: Path) -> None:
    assert read(tmp_path, BrokerStatus, 0.0) is None
    (tmp_path / "run").mkdir()
    path = path_of(tmp_path, BrokerStatus)
    path.write_bytes(encode(BROKER))
    os.utime(path, (100, 100))
    assert read(tmp_path, BrokerStatus, 100 + STALE_S) == BROKER
    assert read(tmp_path, BrokerStatus, 101 + STALE_S) is None


class NoRoom(PosixFiles):
    """No second file finds room."""

    def create(self, path: Path) -> int:
        raise OSError(errno.ENOSPC, "no room")


def test_on_a_full_disk_the_file_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    path = path_of(tmp_path, BrokerStatus)
    path.write_bytes(encode(BrokerStatus(problems=("x" * 500,))))
    with pytest.raises(OSError, match="no room"):
        replace(NoRoom(), path, encode(BROKER))
    assert read(tmp_path, BrokerStatus, path.stat().st_mtime) == BROKER
