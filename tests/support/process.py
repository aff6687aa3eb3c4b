"""The real programs as child processes: started, awaited, killed, started again.

All but ``up`` and its parts are forks of one process that has imported them
(`tests.support.nursery`).
"""

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import IO, NamedTuple

import psutil

from broker.cli.supervisor import ready_facts
from tests.support import nursery
from tests.support.patience import IDLE_S, STUCK_S, becomes_true
from tests.support.ports import kept_for

START_TIMEOUT_S = STUCK_S
Program = subprocess.Popen[str] | nursery.Forked
FOR_TESTS = tuple(f"LAKELOG_{word}_" for word in ("CRASH", "LOAD", "SEMANTICS", "SIM"))


class Part:
    """``lakelog broker | compactor | up | admin`` on a data directory.

    ``settings`` are ``-X`` items.
    """

    def __init__(self, name: str, data_dir: Path, *settings: str) -> None:
        self.name, self.data_dir = name, data_dir
        self.settings = list(settings)
        self.program = ["broker.cli"]  # a module, and words before the command
        self.arguments: list[str] = []
        self.facts: dict[str, str] = {}
        self.log = data_dir.parent / f"{data_dir.name}.{name}.log"
        self.process: Program | None = None
        self.lines: queue.Queue[str | None] = queue.Queue()
        self.waited_s = 0.0

    def start(self, failpoints: str = "", wait: bool = True) -> "Part":
        words = [*self.program, self.name, "--data-dir", str(self.data_dir)]
        words += self.arguments
        for item in self.settings:
            words += ["-X", item]
        self.lines = queue.Queue()
        with self.log.open("ab") as log:
            env = _environment() | {"LAKELOG_FAILPOINTS": failpoints}
            self.process = self._run(words, env, log)
        threading.Thread(
            target=self._listen, args=(self.process, self.lines), daemon=True
        ).start()
        if wait:
            self.wait_ready()
        return self

    @staticmethod
    def _run(words: list[str], env: dict[str, str], log: IO[bytes]) -> Program:
        return nursery.start(words, env, log)

    def wait_ready(self) -> None:
        """Until it says that it is ready; AssertionError with its log if it is not."""
        word = "compactor ready" if self.name == "compactor" else "ready "
        started = time.monotonic()
        line = self._line(word, started + START_TIMEOUT_S)
        self.waited_s = time.monotonic() - started
        if self.name != "compactor":
            self.facts = ready_facts(line)

    def hear(self, start: str, timeout_s: float = START_TIMEOUT_S) -> str:
        """The next line on its standard output that starts so."""
        return self._line(start, time.monotonic() + timeout_s)

    def _line(self, start: str, deadline: float) -> str:
        while True:
            try:
                line = self.lines.get(timeout=max(0.1, deadline - time.monotonic()))
            except queue.Empty:
                line = None
            assert line is not None, f"{self.name} said no {start!r}:\n{self.tail()}"
            if line.startswith(start):
                return line

    def tail(self) -> str:
        return self.log.read_text(errors="replace")[-3000:]

    @staticmethod
    def _listen(process: Program, lines: "queue.Queue[str | None]") -> None:
        assert process.stdout is not None
        with process.stdout as said:
            for line in said:
                lines.put(line.rstrip())
        lines.put(None)

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def kill(self) -> None:
        """kill -9, and wait for the end."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def died(self, timeout_s: float) -> bool:
        """Whether it ends by itself (a failpoint) within the time."""
        assert self.process is not None
        try:
            self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def stopped(self, timeout_s: float) -> bool:
        """Whether it is stopped, as by SIGSTOP, within the time."""
        assert self.process is not None
        watched = psutil.Process(self.process.pid)
        return becomes_true(
            lambda: watched.status() == psutil.STATUS_STOPPED, timeout_s
        )

    def go_on(self) -> None:
        """SIGCONT."""
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def stop(self, timeout_s: float = IDLE_S) -> int:
        """SIGTERM; its exit code. AssertionError if it does not stop in time."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError(f"{self.name} did not stop:\n{self.tail()}") from None

    def end(self) -> None:
        """For the end of a test: gone, whatever state it is in."""
        if self.alive:
            self.kill()


class BrokerPart(Part):
    """A broker alone; its port is its own from now on, so that clients find it again
    after a restart and never somebody else."""

    def __init__(self, data_dir: Path, *settings: str) -> None:
        super().__init__("broker", data_dir, *settings)
        self.listener = kept_for(self)
        self.arguments = ["--listener", self.listener]

    @property
    def bootstrap(self) -> str:
        return self.facts["kafka"]


class WholePart(BrokerPart):
    """``lakelog up``: all parts, on free ports, each of them a Python of its own."""

    def __init__(self, data_dir: Path, *settings: str) -> None:
        super().__init__(data_dir, *settings)
        self.name = "up"
        self.log = data_dir.parent / f"{data_dir.name}.up.log"
        self.arguments += ["--admin", "127.0.0.1:0"]

    @staticmethod
    def _run(words: list[str], env: dict[str, str], log: IO[bytes]) -> Program:
        return subprocess.Popen(
            [sys.executable, "-m", *words],
            stdout=subprocess.PIPE, stderr=log, text=True, env=env,
        )  # fmt: skip

    def descendants(self) -> dict[str, list[psutil.Process]]:
        """All its processes by what they are: broker, admin, compactor, java, ..."""
        assert self.process is not None
        found: dict[str, list[psutil.Process]] = {}
        for child in psutil.Process(self.process.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                found.setdefault(_kind(child), []).append(child)
        return found


class EagerPart(BrokerPart):
    """A broker and beside it a compactor, with its Spark, that merges and cleans as
    soon as it can; one of ``lakelog up`` lets tables rest for a minute."""

    def __init__(self, data_dir: Path, *settings: str) -> None:
        super().__init__(data_dir, *settings)
        self.compactor = Part("compactor", data_dir, *settings)
        words = "merges_eagerly,looks_often"
        self.compactor.program = ["tests.crash.altered", words]

    def wait_ready(self) -> None:
        super().wait_ready()
        self.compactor.start()

    def end(self) -> None:
        self.compactor.end()
        super().end()


def _kind(process: psutil.Process) -> str:
    words = process.cmdline()
    if "broker.cli" in words:
        return words[words.index("broker.cli") + 1]
    return process.name()


def gone(processes: Iterable[psutil.Process], timeout_s: float = IDLE_S) -> bool:
    """Whether they all end within the time (zombies have ended)."""
    waiting = list(processes)
    return becomes_true(lambda: not any(_lives(one) for one in waiting), timeout_s)


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


class Told(NamedTuple):
    """How a command ended."""

    code: int
    output: str
    errors: str


def told(*words: str, stdin: bytes = b"") -> Told:
    """Run a ``lakelog`` command to its end."""
    done = nursery.run(["broker.cli", *words], _environment(), stdin, STUCK_S + IDLE_S)
    return Told(done.returncode, done.stdout.decode(), done.stderr.decode())


def lakelog(*words: str, stdin: bytes = b"", code: int = 0) -> str:
    """Run a ``lakelog`` command that ends with ``code``; its standard output."""
    done = told(*words, stdin=stdin)
    assert done.code == code, f"lakelog {' '.join(words)}: {done}"
    return done.output


def _environment() -> dict[str, str]:
    """Without the words to our suites, which no program knows as settings."""
    return {k: v for k, v in os.environ.items() if not k.startswith(FOR_TESTS)}
