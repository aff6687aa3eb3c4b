"""A whole Lakelog as processes: `lakelog up`, its parts found, watched and asked.

The figures of the lake need more than an address: how far the compactor is, what each
part has in memory, which segments still hold something.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from infra.bench.brokers import free_port

START_TIMEOUT_S = 90.0
MEGA = 1e6


class House:
    """One data directory, and the processes that work on it."""

    def __init__(self, home: Path, *settings: str) -> None:
        self.home, self.data = home, home / "data"
        self.port = free_port()
        self._settings = [word for item in settings for word in ("-X", item)]
        self._process: subprocess.Popen[bytes] | None = None
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self, *, compactor: bool = True) -> float:
        """``lakelog up``; seconds until clients can come. Waits for Spark, too."""
        words = ["up", "--listener", self.address, "--admin", "127.0.0.1:0"]
        words += [] if compactor else ["--no-compactor"]
        log = self.home / "log"
        seen = log.stat().st_size if log.exists() else 0
        begun = time.monotonic()
        self._process = self._run(words, log)
        wait_for(lambda: b"ready kafka" in log.read_bytes()[seen:], START_TIMEOUT_S)
        took = time.monotonic() - begun
        if compactor:
            wait_for(lambda: b"compactor ready" in log.read_bytes()[seen:], 120)
        return took

    def start_compactor(self) -> subprocess.Popen[bytes]:
        """A compactor beside a broker without one; ready when this returns."""
        log = self.home / "compactor.log"
        seen = log.stat().st_size if log.exists() else 0
        process = self._run(["compactor"], log)
        wait_for(lambda: b"compactor ready" in log.read_bytes()[seen:], 120)
        return process

    def _run(self, words: list[str], log: Path) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "broker.cli", *words]
        command += ["--data-dir", str(self.data), *self._settings]
        with log.open("ab") as out:
            return subprocess.Popen(
                command, stdout=out, stderr=out, stdin=subprocess.DEVNULL
            )

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(30)
            self._process = None

    def kill(self) -> None:
        """kill -9 of the broker; ``up`` follows it."""
        assert self._process is not None
        os.kill(self.pid("broker"), signal.SIGKILL)
        self._process.wait(30)
        self._process = None

    def status(self, part: str) -> dict[str, Any]:
        """What ``run/<part>.json`` says; empty if there is none."""
        try:
            return dict(json.loads((self.data / "run" / f"{part}.json").read_bytes()))
        except (OSError, ValueError):
            return {}

    def pid(self, part: str) -> int:
        return int(self.status(part)["pid"])

    def resident_mb(self) -> float:
        """Of the broker."""
        return psutil.Process(self.pid("broker")).memory_info().rss / MEGA

    def wal_bytes(self) -> int:
        return int(self.status("broker").get("wal", {}).get("bytes", 0))

    def make_topic(self, name: str, partitions: int) -> None:
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient({"bootstrap.servers": self.address})
        topic = NewTopic(name, num_partitions=partitions, replication_factor=1)
        admin.create_topics([topic])[name].result(20)

    def await_tables(self, timeout_s: float = 300) -> None:
        """Until everything stands in tables."""
        words = ["compact", "--timeout", str(timeout_s)]
        done = self._run(words, self.home / "compact.log").wait(timeout_s + 60)
        assert done == 0, "lakelog compact did not end well"

    def await_release(self, timeout_s: float = 60) -> None:
        """Until segments hold nothing; old offsets then come from tables alone."""
        wait_for(lambda: self.status("broker")["wal"]["segments"] == 0, timeout_s)

    def await_merges(self, count: int, timeout_s: float = 180) -> None:
        """Until so many merges were committed, and none is under way."""

        def done() -> bool:
            status = self.status("compactor")
            merges = status.get("counters", {}).get("merges_total", 0)
            return merges >= count and not status["rewriting"]

        wait_for(done, timeout_s)

    def table_bytes(self, topic: str) -> int:
        """Bytes of the files that are in the table; others lie there for a while."""
        from lakehouse.log import delta_log

        snapshot = delta_log.load(str(self.data / "tables" / topic))
        return sum(file.size for file in snapshot.files.values())


def family(pid: int) -> list[psutil.Process]:
    """A process and all below it."""
    try:
        parent = psutil.Process(pid)
        return [parent, *parent.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def cpu_s(pid: int) -> float:
    """Seconds that a process and those below it have computed, the dead included."""
    total = 0.0
    for process in family(pid):
        with suppress(psutil.NoSuchProcess):
            total += sum(process.cpu_times()[:4])
    return total


def wait_for(done: Callable[[], bool], timeout_s: float, pause_s: float = 0.02) -> None:
    deadline = time.monotonic() + timeout_s
    while not done():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {timeout_s:.0f} s")
        time.sleep(pause_s)


class WorkerMemory:
    """The most that Spark's Python workers of a compactor had, in MB."""

    def __init__(self) -> None:
        self.one = self.all = 0.0

    @contextmanager
    def watch(self, pid: int) -> Iterator[None]:
        stop = threading.Event()

        def look() -> None:
            while not stop.wait(0.1):
                self._look(pid)

        thread = threading.Thread(target=look, daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def _look(self, pid: int) -> None:
        sizes = []
        for process in family(pid)[1:]:
            with suppress(psutil.Error):
                if "python" in process.name():
                    # Proportional: what is shared with the daemon counts once.
                    sizes.append(process.memory_full_info().pss / MEGA)
        self.one = max(self.one, *sizes, 0.0)
        self.all = max(self.all, sum(sizes))
