"""Lines that go to a standard stream, and keep nobody waiting.

The problem: standard error may be a pipe whose reader has stopped, or a terminal that
is held. A write then waits, and with it the event loop: one client's mistake was
logged, and nobody was served any more. The idea: what the stream takes at once is
written at once, so that it is there whatever comes next, be it a kill. What it does not
take waits, in order, for a thread that has nothing else to do. So much waits and no
more; what comes then is counted, and the count is said in its place.

To write without waiting, a pipe or a terminal is opened once more: whether a write
waits belongs to what was opened, and that is shared with whoever started us. A file
takes lines at once. What cannot be opened again gets all its lines by the thread.
"""

import atexit
import os
import select
import socket
import stat
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final, TextIO

from broker.threads import SYSTEM_THREADS

WAITING_BYTES_MAX: Final = 1 << 20
FLUSH_S: Final = 1.0
"""So long, at the end of the process, the reader has for what still waits."""
Take = Callable[[bytes], int]


class LineOutput:
    """Lines for one open file. Any thread, and signal handlers, may write.

    ``lost`` gets how many lines were passed over, on the thread that found room again;
    it may write. ``refused`` gets what the file did not take (a full disk, a reader
    that has gone); that is dropped.
    """

    def __init__(
        self,
        fd: int,
        lost: Callable[[int], None],
        refused: Callable[[bytes, OSError], None] = lambda rest, error: None,
    ) -> None:
        self._fd, self._take = fd, _taking_at_once(fd)
        self._lost, self._refused = lost, refused
        self._begin_empty()
        os.register_at_fork(after_in_child=self._begin_empty)
        atexit.register(self.flush, FLUSH_S)

    @classmethod
    def of(
        cls,
        stream: TextIO,
        lost: Callable[[int], None],
        refused: Callable[[bytes, OSError], None] = lambda rest, error: None,
    ) -> "LineOutput | None":
        """For the file of a stream; None if it has none, as one in memory."""
        try:
            return cls(stream.fileno(), lost, refused)
        except (OSError, ValueError):
            return None

    def _begin_empty(self) -> None:
        """As at the start; in a fork too: what waits is the parent's to write."""
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = self._missed = 0
        self._lock = threading.RLock()  # a handler may interrupt who has it
        self._is_writing = False
        self._empty = threading.Event()
        self._empty.set()

    def write(self, line: bytes) -> None:
        """Write it, or keep it to be written, or count it. Waits for nobody."""
        with self._lock:
            if self._has_no_room(len(line)):
                self._missed += 1
                return
            self._report_missed()
            rest = line if self._waiting else self._write_now(line)
            if rest:
                self._keep(rest)

    def flush(self, timeout_s: float) -> bool:
        """Wait until all is written; whether it is."""
        with self._lock:
            self._report_missed()
            if self._waiting:
                self._start_writing()
        return self._empty.wait(timeout_s)

    def _has_no_room(self, size: int) -> bool:
        """Once it was full, half must be free: else each line were a gap."""
        limit = WAITING_BYTES_MAX // 2 if self._missed else WAITING_BYTES_MAX
        return bool(self._waiting) and self._waiting_bytes + size > limit

    def _report_missed(self) -> None:
        count, self._missed = self._missed, 0
        if count:
            self._lost(count)

    def _write_now(self, line: bytes) -> bytes:
        """What is left of it that the file does not take now."""
        try:
            while line:
                line = line[self._take(line) :]
        except BlockingIOError:
            return line
        except OSError as error:
            self._refused(line, error)
        return b""

    def _keep(self, line: bytes) -> None:
        self._waiting.append(line)
        self._waiting_bytes += len(line)
        self._empty.clear()
        self._start_writing()

    def _start_writing(self) -> None:
        """Where there is no thread left, the next line tries again."""
        if self._is_writing:
            return
        with suppress(RuntimeError):
            self._is_writing = True
            SYSTEM_THREADS.thread("line output", self._write_waiting).start()
            return
        self._is_writing = False

    def _write_waiting(self) -> None:
        """The thread: until nothing waits."""
        while (line := self._first()) is not None:
            self._write_slowly(line)
            with self._lock:
                self._waiting.popleft()
                self._waiting_bytes -= len(line)

    def _first(self) -> bytes | None:
        """What waits longest; it waits on, so that no later line comes before it."""
        with self._lock:
            if not self._waiting:
                self._report_missed()
            if self._waiting:
                return self._waiting[0]
            self._is_writing = False
            self._empty.set()
            return None

    def _write_slowly(self, line: bytes) -> None:
        try:
            while line:
                try:
                    line = line[os.write(self._fd, line) :]
                except BlockingIOError:  # who shares it wants it so
                    _wait_for_room(self._fd)
        except OSError as error:
            self._refused(line, error)


def _taking_at_once(fd: int) -> Take:
    """Writes to the file what it takes now, and returns how many bytes those were;
    raises BlockingIOError where it takes none."""
    try:
        mode = os.fstat(fd).st_mode
        if stat.S_ISREG(mode):
            return partial(os.write, fd)
        if stat.S_ISSOCK(mode):
            return partial(_send, socket.socket(fileno=os.dup(fd)))
        flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY
        return partial(os.write, os.open(f"/proc/self/fd/{fd}", flags))
    except OSError:
        return _taking_nothing


def _send(sending: socket.socket, line: bytes) -> int:
    return sending.send(line, socket.MSG_DONTWAIT)


def _taking_nothing(_: bytes) -> int:
    raise BlockingIOError


def _wait_for_room(fd: int) -> None:
    waiting = select.poll()
    waiting.register(fd, select.POLLOUT)
    waiting.poll()
