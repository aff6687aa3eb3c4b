"""Processes that look like a compactor, and do nothing."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

COMPACTOR: Final = "-m", "broker.cli", "compactor"


@contextmanager
def asleep(data_dir: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process with these words that has a data directory's catalog open."""
    code = "import time; time.sleep(600)"
    with (
        open(data_dir / "catalog.db", "rb") as catalog,
        subprocess.Popen([sys.executable, "-c", code, *words], stdin=catalog) as made,
    ):
        yield made
        made.kill()
