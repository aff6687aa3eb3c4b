"""Clients in other languages: programs that take records on their standard input.

A record is a line of three words, key, value and headers; ``-`` is null, ``x`` and
hexadecimal digits are bytes. ``flush``, ``begin``, ``commit`` and ``abort`` are
answered with ``done``; what is read comes back as ``record PARTITION OFFSET KEY VALUE
HEADERS``, what a member of a group owns as ``assigned 0,1``. The end of the input is
the end.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from jobs.extent import Extents
from tests.support.patience import IDLE_S, STUCK_S, becomes_true, wait_until
from tests.support.process import BrokerPart, Part

Headers = Sequence[tuple[str, bytes | None]]
Row = tuple[bytes | None, bytes | None, Headers]
Read = tuple[int, int, bytes | None, bytes | None, Headers]
"""Partition, offset, key, value, headers."""

SETTINGS = (
    "wal.keep_ms=0",
    "wal.idle_seal_ms=100",
    "lake.flush_ms=1000",
    "lake.flush_max_ms=1000",
    "lake.follow_ms=50",
    "groups.initial_rebalance_delay_ms=100",
)
"""Records stand in the table alone soon after they were written."""


@dataclass(frozen=True)
class Client:
    """A library, the version that it is or is held to, and what it has."""

    library: str
    version: str
    codecs: Sequence[str]
    lacks: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return f"{self.library} {self.version}".replace(" ", "-")


class Site:
    """A broker and its compactor, as ``lakelog up`` starts them."""

    def __init__(self, directory: Path) -> None:
        self._broker = BrokerPart(directory / "data", *SETTINGS)
        self._compactor = Part("compactor", directory / "data", *SETTINGS)
        self._broker.start()
        self._compactor.start()

    @property
    def bootstrap(self) -> str:
        return self._broker.bootstrap

    def release(self, topics: Sequence[str]) -> None:
        """Return when all records of the topics stand in their tables alone."""
        with closing(Extents(self._broker.data_dir)) as extents:
            extents.compact(topics, STUCK_S)
        wait_until(lambda: not self._segment_bytes(topics), pause_s=0.2)

    def _segment_bytes(self, topics: Sequence[str]) -> int:
        with closing(Extents(self._broker.data_dir)) as extents:
            found = extents.of(topics)
        return sum(part.segment_bytes for topic in found for part in topic.partitions)

    def restart(self) -> None:
        """kill -9 of the broker, and another one in its place."""
        self._broker.kill()
        self._broker.start()

    def end(self) -> None:
        self._compactor.end()
        self._broker.end()


class Driver:
    """A running program of a client."""

    def __init__(self, *command: str) -> None:
        self.records: list[Read] = []
        self.assigned: set[int] = set()
        self.answered = 0
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self._ear = threading.Thread(target=self._listen, daemon=True)
        self._ear.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._ear.join()
        self._errors.close()

    def send(self, *lines: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write("".join(f"{line}\n" for line in lines))
            self._process.stdin.flush()
        except BrokenPipeError:
            raise AssertionError(self._said()) from None

    def ask(self, *lines: str) -> None:
        """Return when the last of ``lines`` is answered."""
        wanted = self.answered + 1
        self.send(*lines)
        self.wait(lambda: self.answered >= wanted)

    def wait(self, condition: Callable[[], object]) -> None:
        """Until it is so; AssertionError if the program ends or stands still."""
        becomes_true(lambda: condition() or not self._ear.is_alive())
        assert condition(), self._said()

    def close(self) -> None:
        """End the input, and wait for a program that ends well."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        code = self._process.wait(IDLE_S)
        assert code == 0, self._said()

    def _said(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").split("\n")
        said = " ".join(line.strip() for line in lines if line.strip())
        read = f"{len(self.records)} records, assigned {sorted(self.assigned)}"
        return f"{said[-500:] or 'nothing came'} ({read})"

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._hear(line.split())

    def _hear(self, words: list[str]) -> None:
        match words:
            case ["done"]:
                self.answered += 1
            case ["assigned", *partitions]:
                self.assigned = {int(n) for w in partitions for n in w.split(",")}
            case ["record", partition, offset, key, value, headers]:
                where = int(partition), int(offset)
                row = _bytes(key), _bytes(value), _headers(headers)
                self.records.append((*where, *row))


def line(row: Row) -> str:
    """A record as its program takes it."""
    key, value, headers = row
    pairs = ",".join(f"{name}={_word(one)}" for name, one in headers)
    return f"{_word(key)} {_word(value)} {pairs or '-'}"


def _word(value: bytes | None) -> str:
    return "-" if value is None else f"x{value.hex()}"


def _bytes(word: str) -> bytes | None:
    return None if word == "-" else bytes.fromhex(word[1:])


def _headers(word: str) -> Headers:
    if word == "-":
        return []
    pairs = [pair.partition("=") for pair in word.split(",")]
    return [(name, _bytes(value)) for name, _, value in pairs]


def toolchain(name: str, program: str) -> str:
    """The path of a program that builds; the test is skipped where there is none."""
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"no {name}")
    return found


def build(*command: str, cwd: Path) -> None:
    """Run a step of a build; what it said is in the failure."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]


def fetched(registry: str, *command: str, cwd: Path) -> None:
    """Get what a program stands on; the test is skipped if the registry gives none."""
    code, said = within(*command, cwd=cwd)
    if code != 0:
        pytest.skip(f"{registry} gave nothing: {' '.join(said.split())[-200:]}")


def within(*command: str, cwd: Path, limit_s: float = 60) -> tuple[int, str]:
    """Exit code and output; the test is skipped if it takes longer, with its children.

    The output goes into a file: what a killed child leaves open ends no pipe.
    """
    with tempfile.TemporaryFile() as output:
        step = subprocess.Popen(
            command, cwd=cwd, stdout=output, stderr=output, start_new_session=True
        )
        try:
            code = step.wait(limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(step.pid, signal.SIGKILL)
            step.wait()
            pytest.skip(f"{Path(command[0]).name} took longer than {limit_s:.0f} s")
        output.seek(0)
        return code, output.read().decode(errors="replace")
