"""``lakelog up``: the parts as children, watched, and stopped in order.

The broker is what people came for: if it dies, all stops and the reason is printed. The
compactor and the admin plane are restarted, with pauses that grow while they keep
dying, and never take the broker down. A child asks the kernel to be killed when its
parent goes (``PR_SET_PDEATHSIG``), so that nothing outlives an ``up`` that was killed
with -9; Spark's own processes end when the pipe from the compactor closes. At an
orderly stop they are waited for, and killed if they linger: each part is a process
group of its own.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import structlog

from broker.cli.announce import REPORTED_VARIABLE, SOCKET_VARIABLE

PARENT_VARIABLE = "LAKELOG_PARENT"
RESTARTS_VARIABLE = "LAKELOG_RESTARTS"
"""How often `up` started this part again; its own counters begin at 0 each time."""
FROM_INPUT = "-"
"""As an address: it comes as a line of the standard input."""
STOP_TIMEOUT_S = 4.0
LINGER_S = 1.0
POLL_S = 0.05
ADMIN_WAIT_S = 30.0
"""So long a broker that serves waits for the plane to say that clients can come."""
PAUSE_MAX_S = 60.0
STEADY_S = 60.0

log = structlog.get_logger("lakelog.up")


def die_with_parent() -> None:
    """Called by a child at its start: no ``up``, no child."""
    import ctypes

    parent = os.environ.pop(PARENT_VARIABLE, None)
    if parent is None or not sys.platform.startswith("linux"):
        return
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
    if os.getppid() != int(parent):  # it went before we asked
        os.kill(os.getpid(), signal.SIGKILL)


def restarts() -> int:
    """How often this process was started again by ``up``; 0 where it is no child."""
    said = os.environ.get(RESTARTS_VARIABLE, "")
    return int(said) if said.isascii() and said.isdecimal() else 0


def _environment(restarted: int) -> dict[str, str]:
    """What a child is told beside our own; a file in the directory from which ``up``
    was called is no module, neither to it nor to Spark's workers. That all is ready is
    for us to say, and which settings have no effect."""
    return {
        PARENT_VARIABLE: str(os.getpid()),
        RESTARTS_VARIABLE: str(restarted),
        "PYTHONSAFEPATH": "1",
        SOCKET_VARIABLE: "",
        REPORTED_VARIABLE: "1",
    }


def next_pause_s(pause_s: float, lived_s: float) -> float:
    """How long to wait before a restart: doubles until a life was a steady one."""
    return 1.0 if lived_s >= STEADY_S else min(max(pause_s * 2, 1.0), PAUSE_MAX_S)


def reason(code: int) -> str:
    """An exit code in words."""
    if code >= 0:
        return f"exit code {code}"
    with contextlib.suppress(ValueError):
        return f"killed by {signal.Signals(-code).name}"
    return f"killed by signal {-code}"


def ready_facts(line: str) -> dict[str, str]:
    """The facts of a line ``ready kafka=H:P ... tables=PATH``.

    The path comes last, and is all that follows: it may have spaces. A word that is no
    fact is passed over.
    """
    head, named, tables = line.partition(" tables=")
    words = (word.partition("=") for word in head.split(" ")[1:])
    facts = {name: value for name, equals, value in words if equals}
    return facts | ({"tables": tables} if named else {})


@dataclass
class Child:
    """One part as a process; ``said`` gets each line of its standard output, ``line``
    gives the one line of its standard input, when there is one. ``ready`` is set by who
    hears that it can work."""

    name: str
    arguments: list[str]
    said: Callable[[str], None]
    ended: Callable[[], None] = lambda: None
    process: asyncio.subprocess.Process | None = None
    group: int | None = None
    """Its process group, as long as somebody of it may be there: afterwards the number
    may be another program's."""
    stopping: bool = False
    restarts: int = 0
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    line: Callable[[], Awaitable[str]] | None = None

    def command(self) -> list[str]:
        return [sys.executable, "-m", "broker.cli", *self.arguments]

    async def run(self) -> int:
        """Start it; its exit code when it and all that it started have ended. Raises
        OSError where it cannot be started."""
        process, read_end, line_end = await self._start()
        if self.stopping:  # who asked had no process yet to ask
            self.signal(signal.SIGTERM)
        reading = asyncio.create_task(self._read_lines(read_end))
        writing = asyncio.create_task(self._write_line(line_end))
        code = await process.wait()
        writing.cancel()
        await self._wait_until_gone()
        await _until_done(reading, LINGER_S)
        return code

    async def _start(self) -> tuple[asyncio.subprocess.Process, int, int]:
        """It, and our ends of the pipes of its output and of its input."""
        with contextlib.ExitStack() as its_own, contextlib.ExitStack() as ours:
            read_end, write_end = os.pipe()
            its_own.callback(os.close, write_end)
            ours.callback(os.close, read_end)
            input_end, line_end = os.pipe()
            its_own.callback(os.close, input_end)
            ours.callback(os.close, line_end)
            self.process = await asyncio.create_subprocess_exec(
                *self.command(),
                stdout=write_end,
                stdin=input_end,
                env=os.environ | _environment(self.restarts),
                start_new_session=True,  # ctrl-C reaches us alone; we stop in order
            )
            self.group = self.process.pid
            ours.pop_all()
        return self.process, read_end, line_end

    async def _read_lines(self, pipe: int) -> None:
        """Until the last who holds the other end has gone, or is waited for no more.

        The pipe is ours and not asyncio's, which would not tell us of an end before
        that: a JVM that outlives its driver holds it too.
        """
        lines = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(lines), os.fdopen(pipe, "rb")
        )
        try:
            while line := await _next_line(lines):
                self._hand_on(line)
        finally:
            transport.close()

    def _hand_on(self, line: bytes) -> None:
        """Whatever a part, or Spark in it, may print: it is watched on. Bytes that are
        no letters stay what they are; parts write as we do."""
        try:
            self.said(line.decode(sys.stdout.encoding, "surrogateescape").rstrip())
        except Exception:
            log.exception("a line was not understood", part=self.name)

    async def _write_line(self, pipe: int) -> None:
        """Its input: the line, and the end; the end at once where there is none."""
        with contextlib.suppress(BrokenPipeError), os.fdopen(pipe, "w") as its_input:
            if self.line is not None:
                print(await self.line(), file=its_input)

    async def keep(self) -> None:
        """Run it again and again, until it is asked to stop."""
        loop, pause_s = asyncio.get_running_loop(), 0.5
        while not self.stopping:
            started = loop.time()
            why = await self.run_once()
            if self.stopping:
                return
            self.ended()
            pause_s = next_pause_s(pause_s, loop.time() - started)
            log.error("ended", part=self.name, why=why, again_in_s=pause_s)
            await asyncio.sleep(pause_s)
            self.restarts += 1

    async def run_once(self) -> str:
        """Run it; why it ended, or was not started: there may be no memory for it."""
        try:
            return reason(await self.run())
        except OSError as error:
            return f"cannot be started: {error.strerror}"

    def signal(self, number: int) -> None:
        self.stopping = True
        if self.process is not None and self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(number)

    async def stop(self, timeout_s: float) -> None:
        """SIGTERM, and SIGKILL for one that does not go and for what it left."""
        self.signal(signal.SIGTERM)
        if self.process is None:
            return
        try:
            await asyncio.wait_for(self.process.wait(), timeout_s)
        except TimeoutError:
            log.warning("does not stop; killed", part=self.name)
            self.signal(signal.SIGKILL)
            await self.process.wait()
        await self._wait_until_gone()

    async def _wait_until_gone(self) -> None:
        """Wait for the rest of its process group (Spark's JVM); end what lingers."""
        for _ in range(int(LINGER_S / POLL_S)):
            if self.group is None or not _signal_group(self.group, 0):
                break
            await asyncio.sleep(POLL_S)
        else:
            self._kill_group()
        self.group = None

    def _kill_group(self) -> None:
        if self.group is not None:
            _signal_group(self.group, signal.SIGKILL)


async def _until_done(task: asyncio.Task[None], timeout_s: float) -> None:
    """Wait for it, so long and no longer: somebody who left the group, and who may live
    for hours, holds the pipe as well."""
    await asyncio.wait({task}, timeout=timeout_s)
    task.cancel()
    await asyncio.wait({task})


async def _next_line(lines: asyncio.StreamReader) -> bytes:
    """b"" at the end. Of a line of more than 64 KiB no more than its last part: Spark
    may print any, and who started it is to hear of its end all the same."""
    while True:
        with contextlib.suppress(ValueError):
            return await lines.readline()


def _log_failure(task: asyncio.Task[None]) -> None:
    """A mistake of ours: Kafka is served all the same, and somebody is to know."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("parts are started again no more", exc_info=error)


def _signal_group(group: int, number: int) -> bool:
    """Whether there was somebody to take the signal."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


class Supervisor:
    """Starts what was asked for, says when clients can come, stops in order."""

    def __init__(
        self,
        shared: list[str],
        admin_wanted: bool,
        compactor_wanted: bool,
        say: Callable[[str], None],
        admin_flags: Sequence[str] = (),
        announce: Callable[[str], None] | None = None,
    ) -> None:
        """``say`` gets each line, ``announce`` the one that says that clients can come;
        ``say`` if there is none."""
        self.shared, self.say, self.admin_flags = shared, say, admin_flags
        self.announce = announce or say
        self.admin_wanted, self.compactor_wanted = admin_wanted, compactor_wanted
        self.broker = Child("broker", ["broker", *shared], self._on_line)
        self.others: list[Child] = []
        self.facts: dict[str, str] = {}
        self.announced = False
        self.stop_requested = asyncio.Event()
        self.signals = 0

    async def run(self) -> int:
        """Run all parts until a signal (returns 0) or until the broker dies (1)."""
        loop = asyncio.get_running_loop()
        self._handle_signals(loop)
        broker = loop.create_task(self.broker.run_once())
        follow = loop.create_task(self._start_others())
        follow.add_done_callback(_log_failure)
        stop = loop.create_task(self.stop_requested.wait())
        await asyncio.wait({broker, stop}, return_when=asyncio.FIRST_COMPLETED)
        died = broker.done()
        self.stop_requested.set()  # nobody is ready any more
        if died:
            log.error("ended", part="broker", why=broker.result())
        await self._stop_all()
        for task in (follow, stop):
            task.cancel()
        await broker
        return 1 if died else 0

    def _handle_signals(self, loop: asyncio.AbstractEventLoop) -> None:
        """A terminal that is closed says so by SIGHUP, and its shell once more: that is
        no second signal. Under nohup it stays ignored."""
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal)
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
            loop.add_signal_handler(signal.SIGHUP, self.stop_requested.set)

    async def _start_others(self) -> None:
        """The admin plane loads its code beside the broker; a compactor's Spark would
        take its processors. What the compactor says is said as it is."""
        async with asyncio.TaskGroup() as keeping:
            if self.admin_wanted:
                keeping.create_task(self._add(self._admin()).keep())
            await self.broker.ready.wait()
            loop = asyncio.get_running_loop()
            loop.call_later(ADMIN_WAIT_S, self._wait_no_longer_for_admin)
            if self.compactor_wanted and not self.stop_requested.is_set():
                arguments = ["compactor", *self.shared]
                compactor = Child("compactor", arguments, self.say)
                keeping.create_task(self._add(compactor).keep())

    def _admin(self) -> Child:
        bootstrap = ["--bootstrap", FROM_INPUT]
        arguments = ["admin", *self.shared, *self.admin_flags, *bootstrap]
        admin = Child("admin", arguments, self._on_line, self._go_without_admin)
        admin.line = self._bootstrap
        return admin

    async def _bootstrap(self) -> str:
        """Where the broker is, once it is there."""
        await self.broker.ready.wait()
        return self.facts["kafka"]

    def _add(self, child: Child) -> Child:
        self.others.append(child)
        return child

    async def _stop_all(self) -> None:
        stops = (child.stop(STOP_TIMEOUT_S) for child in self.others)
        await asyncio.gather(*stops)
        await self.broker.stop(STOP_TIMEOUT_S)

    def _on_signal(self) -> None:
        self.signals += 1
        self.stop_requested.set()
        if self.signals > 1:
            for child in (*self.others, self.broker):
                child.signal(signal.SIGKILL)

    def _on_line(self, line: str) -> None:
        """Gather ``ready a=b c=d`` lines of the broker and the plane; say one when all
        are there. Any other line is said as it is."""
        facts = ready_facts(line) if line.startswith("ready ") else {}
        if not facts.keys() & {"kafka", "admin"}:
            self.say(line)
            return
        self.facts |= facts
        if "kafka" in facts:
            self.broker.ready.set()
        self._announce()

    def _go_without_admin(self) -> None:
        """An admin plane that does not come up keeps nobody from Kafka."""
        self.admin_wanted = False
        self._announce()

    def _wait_no_longer_for_admin(self) -> None:
        """Nor does one that hangs; it may come yet."""
        if not (self.announced or self._is_over()):
            log.warning("not there in time", part="admin", waited_s=ADMIN_WAIT_S)
            self._go_without_admin()

    def _is_over(self) -> bool:
        """Whether the broker has ended, or is to: a late plane makes nothing ready."""
        process = self.broker.process
        has_ended = process is not None and process.returncode is not None
        return has_ended or self.stop_requested.is_set()

    def _announce(self) -> None:
        complete = "kafka" in self.facts and (
            not self.admin_wanted or "admin" in self.facts
        )
        if complete and not (self.announced or self._is_over()):
            self.announced = True
            names = [n for n in ("kafka", "admin", "sync", "tables") if n in self.facts]
            self.announce("ready " + " ".join(f"{n}={self.facts[n]}" for n in names))
