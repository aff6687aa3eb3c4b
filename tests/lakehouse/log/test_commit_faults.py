"""A commit that is cut at each of its calls: the next try makes it exactly once."""

import errno
import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pytest

from lakehouse.errors import LakehouseError
from lakehouse.log.commit import commit_files
from lakehouse.log.delta_log import LOG_DIRECTORY, Snapshot, load, table_ends
from lakehouse.log.log_store import sweep
from lakehouse.new_file import NewFile
from tests.support.tables import TOPIC_ID, Writer, rows, write_file

CALLS = "fsync", "link", "unlink", "replace"


class Killed(BaseException):
    """The process ends here: nothing of what it would do after is done."""


class Fault:
    """Stands at the n-th of the calls: it fails before it is made, or after; or the
    process ends before or after it, and makes no other call then."""

    def __init__(self, patch: pytest.MonkeyPatch, how: str, at: int) -> None:
        self._kills, self._before = how.startswith("killed"), how.endswith("before")
        self._left, self.hit, self._dead = at, "", False
        for name in CALLS:
            patch.setattr(os, name, self._instead(name, getattr(os, name)))

    def _instead(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*arguments: Any, **how: Any) -> Any:
            if self._dead:
                raise Killed
            self._left -= 1
            if self._left:
                return call(*arguments, **how)
            self.hit, self._dead = name, self._kills
            if not self._before:
                call(*arguments, **how)
            raise Killed if self._kills else OSError(errno.EIO, "the disk refused")

        return noted


def tried(path: str, files: list[NewFile], snapshot: Snapshot) -> None:
    """One try of a compactor, planned from what its snapshot says."""
    end = table_ends(snapshot).get(0, 0)
    if end < 20:
        number = snapshot.transactions.get(TOPIC_ID, 0) + 1
        span = {0: (end, 20)}
        commit_files(path, TOPIC_ID, number, span, files, snapshot=snapshot)


def suffers(path: str, files: list[NewFile], how: str, at: int) -> str:
    """Where the fault hit, with the try that it hit done again until it succeeds."""
    snapshot = load(path)
    with pytest.MonkeyPatch.context() as patch:
        fault = Fault(patch, how, at)
        try:
            tried(path, files, snapshot)
        except (OSError, LakehouseError):
            tried(path, files, load(path))  # the compactor reads the table anew
        except Killed:
            pass
    sweep(path)
    tried(path, files, load(path))
    return fault.hit


@pytest.mark.parametrize(
    "how", ["fails before", "fails after", "killed before", "killed after"]
)
def test_a_commit_cut_at_each_call_is_made_exactly_once(
    tmp_path: Path, how: str
) -> None:
    hits = []
    for at in itertools.count(1):
        writer = Writer(str(tmp_path / str(at)))
        writer.add(0, 0, 10)
        file = write_file(writer.path, "late", rows(0, range(10, 20)))
        hits.append(suffers(writer.path, [file], how, at))
        table = deltalake.DeltaTable(writer.path).to_pyarrow_table()
        assert sorted(table["offset"].to_pylist()) == list(range(20)), (how, at)
        snapshot = load(writer.path)
        assert (snapshot.version, snapshot.torn) == (2, None)
        assert table_ends(snapshot) == {0: 20}
        names = os.listdir(os.path.join(writer.path, LOG_DIRECTORY))
        assert all(name.endswith(".json") for name in names), (how, at)
        if not hits[-1]:
            break
    assert set(hits) >= {"fsync", "link", "unlink"}
