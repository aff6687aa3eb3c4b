"""``lakelog up`` as a child: started, awaited, stopped."""

import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from broker.cli.supervisor import ready_facts

LAKELOG = [sys.executable, "-m", "broker.cli"]


class Running:
    """A whole Lakelog in a data directory of its own, on free ports."""

    def __init__(self, data_dir: Path, log: Path, *extra: str) -> None:
        self.data_dir, self.log = data_dir, log
        self._started = time.monotonic()
        self._facts: dict[str, str] = {}
        self._ready, self._compactor = threading.Event(), threading.Event()
        self.ready_s = self.compactor_s = 0.0
        free = ["--listener", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
        self._process = subprocess.Popen(
            [*LAKELOG, "up", "--data-dir", str(data_dir), *free, *extra],
            stdout=subprocess.PIPE,
            stderr=log.open("wb"),
            text=True,
        )
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("ready "):
                self._facts = ready_facts(line.rstrip("\n"))
                self.ready_s = time.monotonic() - self._started
                self._ready.set()
            elif line.startswith("compactor ready"):
                self.compactor_s = time.monotonic() - self._started
                self._compactor.set()

    @property
    def kafka(self) -> str:
        return self._facts["kafka"]

    @property
    def tables(self) -> str:
        return self._facts["tables"]

    def wait_ready(self, timeout_s: float = 30.0) -> None:
        if not self._ready.wait(timeout_s):
            raise RuntimeError("the broker did not become ready")

    def wait_compactor(self, timeout_s: float = 180.0) -> None:
        if not self._compactor.wait(timeout_s):
            raise RuntimeError("the compactor did not become ready")

    def table(self, topic: str) -> dict[str, Any]:
        """What ``lakelog table TOPIC --json`` says."""
        found: dict[str, Any] = ask("table", topic, "--data-dir", str(self.data_dir))
        return found

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(15)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def ask(*words: str) -> Any:
    """A ``lakelog`` command's JSON answer."""
    done = subprocess.run(
        [*LAKELOG, *words, "--json"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"lakelog {' '.join(words)}: {done.stderr.strip()}")
    return json.loads(done.stdout)
