"""A compactor that may die: ``python -m tests.jobs.compactions DIRECTORY``.

It does all that there is to do, without Spark, or dies at the points that
``LAKELOG_FAILPOINTS`` names.
"""

import os
import sys
from pathlib import Path

from broker.catalog.catalog import Catalog
from broker.clock import SystemClock
from broker.settings import LakeSettings, Settings
from broker.storage.files import PosixFiles
from broker.storage.store import LocalSegmentStore
from jobs.backlog import Backlog
from jobs.compactor import Compactor
from tests.jobs.world import MergesHere, here
from tests.support import nursery
from tests.support.patience import STUCK_S


def compaction(data_dir: Path, points: str = "") -> int:
    """Run one as a process of its own until it ends; its exit code."""
    words = ["tests.jobs.compactions", str(data_dir)]
    env = os.environ | {"LAKELOG_FAILPOINTS": points}
    done = nursery.run(words, env, b"", STUCK_S)
    sys.stderr.write(done.stderr.decode())
    return done.returncode


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


if __name__ == "__main__":
    compact(Path(sys.argv[1]))
