"""What the compactor says about itself: a small file, replaced once a second.

The broker's admin plane and the command line read it; nobody's correctness depends on
it, so it is not synced.
"""

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

PERIOD_S = 1.0


class StatusFile:
    """Writes what ``say`` returns, on a thread of its own."""

    def __init__(self, path: Path, say: Callable[[], dict[str, Any]]) -> None:
        self._path, self._say = path, say
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="status", daemon=True)

    def start(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self.write()
        self._thread.start()

    def stop(self) -> None:
        """Say it one last time."""
        self._stop.set()
        self._thread.join()
        self.write()

    def write(self) -> None:
        aside = self._path.with_suffix(".new")
        try:
            aside.write_text(json.dumps(self._say()))
            os.replace(aside, self._path)
        except OSError:
            return  # a full disk is told by what fails to write data

    def _run(self) -> None:
        while not self._stop.wait(PERIOD_S):
            self.write()
