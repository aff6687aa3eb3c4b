"""Processes that look like a compactor, and do nothing."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psutil

from tests.support.patience import wait_until

COMPACTOR: Final = "-m", "broker.cli", "compactor"


@contextmanager
def asleep(data_dir: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process with these words that has a data directory's catalog open. Popen may
    be back before the kernel tells the words."""
    code = "import time; time.sleep(600)"
    with (
        open(data_dir / "catalog.db", "rb") as catalog,
        subprocess.Popen([sys.executable, "-c", code, *words], stdin=catalog) as made,
    ):
        try:
            wait_until(psutil.Process(made.pid).cmdline)
            yield made
        finally:
            made.kill()
