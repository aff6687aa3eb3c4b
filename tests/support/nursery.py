"""Programs of ours, each a fork of one process that has imported them already.

The problem: the suites start some hundreds of brokers, compactors and commands, and of
the two seconds of processor time that each takes until it does anything, nine tenths go
into importing. The idea: one process for each run of pytest (``python -m
tests.support.nursery``) imports what they need, and does nothing else; it is asked for
a program by its module, words, environment and three open files, and forks. From there
on the child is what ``python -m`` would have made of them: it runs the module as
``__main__``, is killed, stopped and judged as any other, and ends as Python ends.

The price: hashes of strings are seeded alike in all of a run; what Python reads of its
surroundings before anything else (encodings, ``PYTHON...``) it has read from the
nursery's; what a program replaces in a module stays as it was for modules that have
imported it by name; what is imported late shows only in programs that are started
otherwise (`lakelog up` starts its parts so); and a child's parent is the nursery, which
hands on how it ended.
"""

import array
import atexit
import contextlib
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Final

from broker.cli.supervisor import PARENT_VARIABLE, die_with_parent

ROOT: Final = Path(__file__).parents[2]
BYTES_MAX: Final = 1 << 20
IMPORTED: Final = (
    "uvloop", "broker.cli.app", "broker.node", "broker.storage.lane", "pyspark.sql",
    "jobs.driver", "jobs.check", "confluent_kafka.admin",
)  # fmt: skip
FORK_SAFE: Final = ("jemalloc_bg_thd",)
"""Threads of Arrow's allocator, which takes care of forks itself."""


# Who asks


class Forked:
    """A program that runs, as ``subprocess.Popen`` shows one: what `Part` needs."""

    def __init__(self, pid: int, ended: int) -> None:
        self.pid, self.returncode = pid, None
        self.stdout: IO[str] | None = None
        self._ended = ended
        self._asking = threading.Lock()

    returncode: int | None

    def poll(self) -> int | None:
        """Its exit code, if it has ended."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, once it has ended; raises ``subprocess.TimeoutExpired``.

        Several may wait, and one that waits keeps nobody from killing it.
        """
        if not self._asking.acquire(timeout=-1 if timeout is None else timeout):
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
        try:
            if self.returncode is None:
                with selectors.DefaultSelector() as selector:
                    selector.register(self._ended, selectors.EVENT_READ)
                    if not selector.select(timeout):
                        raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
                said = os.read(self._ended, 16)
                os.close(self._ended)
                self.returncode = int(said or b"-9")  # the nursery is gone, and all
            return self.returncode
        finally:
            self._asking.release()

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it is about to be told
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def start(
    words: Sequence[str],
    env: Mapping[str, str],
    stderr: IO[bytes] | int,
    stdin: IO[bytes] | int = subprocess.DEVNULL,
) -> Forked:
    """``python -m`` of these words, with a pipe for what it says in ``stdout``."""
    read, write = os.pipe()
    try:
        forked = _fork(words, env, [_number(stdin), write, _number(stderr)])
    except BaseException:
        os.close(read)
        raise
    finally:
        os.close(write)
    forked.stdout = os.fdopen(read, encoding="utf-8")
    return forked


def run(
    words: Sequence[str], env: Mapping[str, str], stdin: bytes, timeout_s: float
) -> subprocess.CompletedProcess[bytes]:
    """``python -m`` of these words, to its end; raises ``subprocess.TimeoutExpired``,
    and then it was killed."""
    with (
        tempfile.TemporaryFile() as given,
        tempfile.TemporaryFile() as said,
        tempfile.TemporaryFile() as told,
    ):
        given.write(stdin)
        given.seek(0)
        forked = _fork(words, env, [file.fileno() for file in (given, said, told)])
        try:
            code = forked.wait(timeout_s)
        except subprocess.TimeoutExpired:
            forked.kill()
            forked.wait()
            raise
        said.seek(0)
        told.seek(0)
        return subprocess.CompletedProcess(words, code, said.read(), told.read())


def _number(file: IO[bytes] | int) -> int:
    if isinstance(file, int):
        assert file == subprocess.DEVNULL
        return _nothing().fileno()
    return file.fileno()


@cache
def _nothing() -> IO[bytes]:
    file = open(os.devnull, "r+b")  # noqa: SIM115  (as long as this process)
    atexit.register(file.close)
    return file


def _fork(words: Sequence[str], env: Mapping[str, str], files: list[int]) -> Forked:
    ended, tell = os.pipe()
    try:
        asked = {"words": list(words), "env": dict(env), "cwd": str(Path.cwd())}
        pid = _nursery().ask(json.dumps(asked).encode(), [*files, tell])
    except BaseException:
        os.close(ended)
        raise
    finally:
        os.close(tell)
    return Forked(pid, ended)


class Nursery:
    """The process that forks. Any thread may ask."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        for end in (self._socket, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BYTES_MAX)
        self._asking = threading.Lock()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.nursery", str(theirs.fileno())],
                pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, cwd=ROOT,
            )  # fmt: skip

    def ask(self, asked: bytes, files: list[int]) -> int:
        """The process id of the program that was asked for."""
        assert len(asked) < BYTES_MAX
        with self._asking:
            rights = array.array("i", files)
            about = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)]
            self._socket.sendmsg([asked], about)
            said = self._socket.recv(16)
        assert said, "the nursery of programs is gone"
        return int(said)

    @property
    def pid(self) -> int:
        return self._process.pid

    def close(self) -> None:
        """Children that still run are killed."""
        self._socket.close()
        self._process.wait()


@cache
def _nursery() -> Nursery:
    """That of this process."""
    nursery = Nursery()
    atexit.register(nursery.close)
    return nursery


# The process that forks


def serve(asking: socket.socket) -> Callable[[], None] | None:
    """Fork what is asked for. In each child the program that it is to be is returned;
    in the nursery None, when nobody can ask any more."""
    children: dict[int, int] = {}
    os.environ[PARENT_VARIABLE] = str(os.getpid())
    woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is for those who ask
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    with selectors.DefaultSelector() as selector:
        selector.register(asking, selectors.EVENT_READ)
        selector.register(woken, selectors.EVENT_READ)
        while True:
            selector.select()
            _drain(woken)
            _reap(children)
            asked, files = _next(asking)
            if asked is None:
                continue
            if not asked:
                break
            pid = os.fork()
            if pid == 0:
                break
            children[pid] = files.pop()
            for file in files:
                os.close(file)
            asking.send(str(pid).encode())
    signal.set_wakeup_fd(-1)
    for number in (woken, wake, asking.fileno(), *children.values()):
        os.close(number)
    asking.detach()
    if asked:
        return _program(json.loads(asked), files)
    for pid in children:
        os.kill(pid, signal.SIGKILL)
    return None


def _next(asking: socket.socket) -> tuple[bytes | None, list[int]]:
    """What is asked for now, and its files; None: nothing is, empty: nobody asks any
    more."""
    try:
        asked, about, _, _ = asking.recvmsg(
            BYTES_MAX, socket.CMSG_SPACE(4 * array.array("i").itemsize),
            socket.MSG_DONTWAIT,
        )  # fmt: skip
    except BlockingIOError:
        return None, []
    files = array.array("i")
    for _, _, rights in about:
        files.frombytes(rights)
    return asked, list(files)


def _drain(pipe: int) -> None:
    with contextlib.suppress(BlockingIOError):
        os.read(pipe, 4096)


def _reap(children: dict[int, int]) -> None:
    """Say of each child that has ended how it did."""
    for pid, tell in list(children.items()):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            os.write(tell, str(os.waitstatus_to_exitcode(status)).encode())
            os.close(tell)
            del children[pid]


def _program(asked: dict[str, object], files: list[int]) -> Callable[[], None]:
    """Become the process that was asked for; what is left is to run it."""
    die_with_parent()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, file in enumerate(files[:3]):
        os.dup2(file, number)
    for file in files:
        os.close(file)
    words, env, cwd = asked["words"], asked["env"], asked["cwd"]
    assert isinstance(words, list)
    assert isinstance(env, dict)
    assert isinstance(cwd, str)
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    os.chdir(cwd)
    sys.path[0] = cwd  # as for any ``python -m``
    sys.argv[1:] = words[1:]
    from broker import failpoints

    failpoints.arm(env.get("LAKELOG_FAILPOINTS", ""))
    return lambda: _run(words[0])


def _run(module: str) -> None:
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def prepare() -> None:
    """Import and load what most programs need, without a thread: a fork has none."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    from broker.memory import choose_allocators

    choose_allocators()
    for name in IMPORTED:
        importlib.import_module(name)
    importlib.import_module("broker.records.inspect").warm()
    importlib.import_module("broker.runtime.partitions.timestamps").warm()


def main() -> None:
    import gc

    prepare()
    threads = [
        name
        for path in Path("/proc/self/task").iterdir()
        if (name := (path / "comm").read_text().strip()) not in FORK_SAFE
    ]
    assert len(threads) == 1, f"no thread lives through a fork: {threads}"
    gc.collect()
    gc.freeze()
    program = serve(socket.socket(fileno=int(sys.argv[1])))
    if program is not None:
        program()


if __name__ == "__main__":
    main()
