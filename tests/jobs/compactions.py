"""Compactors that may die, each a process: ``python -m tests.jobs.compactions``.

To start Python and to import what a compactor needs takes ten times as long as what it
does in a test. So one process imports it and does nothing else, and each compactor is a
fork of that. It is told a data directory and the points at which to die, a line for
each compactor, and answers with its exit code. ``Compactions`` talks to it.
"""

import os
import subprocess
import sys
import traceback
from pathlib import Path

from broker import failpoints
from broker.catalog.catalog import Catalog
from broker.clock import SystemClock
from broker.settings import LakeSettings, Settings
from broker.storage.files import PosixFiles
from broker.storage.store import LocalSegmentStore
from jobs.backlog import Backlog
from jobs.compactor import Compactor
from tests.jobs.world import MergesHere, here
from tests.support.patience import IDLE_S

ROOT = Path(__file__).parents[2]


class Compactions:
    """The process that has imported all, and its compactors."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.jobs.compactions"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
        )  # fmt: skip

    def run(self, data_dir: Path, points: str = "") -> int:
        """Run a compactor until all is done or it dies; its exit code."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{data_dir}\t{points}\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(IDLE_S)
        self._process.stdout.close()


def compact(data_dir: Path) -> None:
    """All that there is to do."""
    settings = Settings(data_dir=data_dir, lake=LakeSettings(flush_ms=0, merge=True))
    catalog = Catalog.open(data_dir / "catalog.db")
    backlog = Backlog(LocalSegmentStore(PosixFiles(), data_dir / "wal"))
    compactor = Compactor(
        settings, catalog, backlog, here, lambda: 2, SystemClock(), lambda: True,
        merges=MergesHere(),
    )  # fmt: skip
    while compactor.step():
        pass
    compactor.step()  # what was merged is committed
    catalog.close()


def forked(data_dir: Path, points: str) -> int:
    """The exit code of a compactor of its own."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        os.dup2(2, 1)  # what it says is no answer
        failpoints.arm(points)
        compact(data_dir)
        os._exit(0)
    except BaseException:
        traceback.print_exc()
    os._exit(1)


def main() -> None:
    for line in sys.stdin:
        data_dir, _, points = line.rstrip("\n").partition("\t")
        print(forked(Path(data_dir), points), flush=True)


if __name__ == "__main__":
    main()
