"""Children are started again, and stopped for good; nothing outlives its parent."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest
import uvloop
from structlog.testing import capture_logs

from broker.cli import supervisor
from broker.cli.announce import say
from broker.cli.supervisor import Child, Supervisor, next_pause_s, reason
from tests.support.patience import STUCK_S, Patience


def test_pauses_grow_while_it_keeps_dying_and_start_again_after_a_steady_life():
    pauses, pause = [], 0.5
    for _ in range(9):
        pause = next_pause_s(pause, lived_s=1.0)
        pauses.append(pause)
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert next_pause_s(pause, lived_s=61.0) == 1.0


@pytest.mark.parametrize(
    ("code", "words"),
    [(1, "exit code 1"), (-9, "killed by SIGKILL"), (-99, "killed by signal 99")],
)
def test_an_exit_code_is_told_in_words(code, words):
    assert reason(code) == words


class Script(Child):
    """A child that is a Python text instead of a command of ours; ready when it said
    anything."""

    def _hand_on(self, line):
        super()._hand_on(line)
        self.ready.set()

    def command(self):
        return [sys.executable, "-c", textwrap.dedent(self.arguments[0])]


def test_what_a_child_says_is_heard_line_by_line():
    heard = []
    child = Script("x", ["print('one'); print('two')"], heard.append)
    assert uvloop.run(child.run()) == 0
    assert heard == ["one", "two"]


def test_a_line_without_an_end_is_left_out_and_the_next_ones_are_heard():
    heard = []
    child = Script("x", ["print('x' * 300_000); print('two'); exit(3)"], heard.append)
    assert uvloop.run(child.run()) == 3
    assert heard[-1] == "two"
    assert sum(map(len, heard)) < 300_000


def test_what_lies_in_the_working_directory_is_no_part_of_a_child(
    monkeypatch, tmp_path
):
    """Nor of what it starts itself: Spark's workers are Python processes as well."""
    for name in ("broker", "secrets"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('not ours')")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(os.path.abspath, sys.path)))
    monkeypatch.chdir(tmp_path)
    heard = []
    child = Child("x", ["config", "show"], heard.append)
    assert uvloop.run(child.run()) == 0
    assert any(line.startswith("listener: ") for line in heard)
    nested = f"import os; exit(os.system('{sys.executable} -m secrets') and 1)"
    assert uvloop.run(Script("x", [nested], heard.append).run()) == 0


def test_a_child_that_dies_is_started_again(monkeypatch):
    monkeypatch.setattr(supervisor, "next_pause_s", lambda *_: 0.01)
    heard, ended = [], []
    text = "from broker.cli.supervisor import restarts; print(restarts()); exit(3)"
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(os.path.abspath, sys.path)))
    child = Script("x", [text], heard.append, lambda: ended.append(1))

    async def story():
        keeping = asyncio.create_task(child.keep())
        while len(heard) < 3:
            await asyncio.sleep(0.01)
        await child.stop(1)
        await keeping

    with capture_logs() as events:
        uvloop.run(asyncio.wait_for(story(), STUCK_S))
    assert len(ended) >= 2
    assert heard[:3] == ["0", "1", "2"]
    assert all(one["why"] == "exit code 3" for one in events if one["event"] == "ended")
    assert [one["event"] for one in events].count("ended") >= 2


@pytest.mark.parametrize(
    ("said", "number"), [(None, 0), ("", 0), ("2", 2), ("x", 0), ("-1", 0)]
)
def test_who_was_not_started_by_up_was_never_started_again(monkeypatch, said, number):
    monkeypatch.delenv(supervisor.RESTARTS_VARIABLE, raising=False)
    if said is not None:
        monkeypatch.setenv(supervisor.RESTARTS_VARIABLE, said)
    assert supervisor.restarts() == number


ECHO = "import sys; print('waits', flush=True); print(*sys.stdin)"


def test_a_child_is_told_a_line_when_there_is_one_and_each_time_it_is_started():
    heard: list[str] = []
    child = Script("x", [ECHO], heard.append)

    async def line():
        await child.ready.wait()
        return "h:1"

    child.line = line

    async def story():
        return [await child.run(), await child.run()]

    assert uvloop.run(asyncio.wait_for(story(), STUCK_S)) == [0, 0]
    assert heard == ["waits", "h:1", ""] * 2


def test_a_child_that_is_told_nothing_finds_its_input_at_its_end():
    heard: list[str] = []
    assert uvloop.run(Script("x", [ECHO], heard.append).run()) == 0
    assert heard == ["waits", ""]


def test_a_child_that_ends_before_it_is_told_leaves_nothing_open():
    async def story():
        assert await Script("x", ["pass"], print).run() == 0  # the loop's own are open
        child = Script("x", ["pass"], print)
        child.line = asyncio.Event().wait
        before = os.listdir("/proc/self/fd")
        assert await child.run() == 0
        await asyncio.sleep(0)
        assert os.listdir("/proc/self/fd") == before

    uvloop.run(asyncio.wait_for(story(), STUCK_S))


def test_a_line_that_nobody_understands_ends_no_watch():
    def said(line):
        raise ValueError(line)

    with capture_logs() as events:
        assert (
            uvloop.run(Script("x", ["print('ready to go'); exit(3)"], said).run()) == 3
        )
    assert [one["event"] for one in events] == ["a line was not understood"]


def test_bytes_that_are_no_letters_stay_what_they_are(capfdbinary):
    text = r"import sys; sys.stdout.buffer.write(b'd\xff caf\xc3\xa9\n')"
    assert uvloop.run(Script("x", [text], say).run()) == 0
    assert capfdbinary.readouterr().out == b"d\xff caf\xc3\xa9\n"


ESCAPED = """
    import subprocess, sys
    left = subprocess.Popen(["sleep", "600"], start_new_session=True)
    print(left.pid, flush=True)
    exit(3)
"""


def test_somebody_who_left_its_group_and_lives_on_does_not_hide_its_end():
    """He holds the pipe of its output, as a Spark worker of another session may."""
    heard = []
    child = Script("x", [ESCAPED], heard.append)
    try:
        assert uvloop.run(asyncio.wait_for(child.run(), STUCK_S)) == 3
    finally:
        os.kill(int(heard[0]), signal.SIGKILL)


class Unstartable(Script):
    """A child for which the machine has no process left, at its first starts."""

    def command(self):
        self.tries = getattr(self, "tries", 0) + 1
        return ["/nowhere/python"] if self.tries < 3 else super().command()


def test_a_child_that_cannot_be_started_is_tried_again_and_keeps_nothing_open(
    monkeypatch,
):
    monkeypatch.setattr(supervisor, "next_pause_s", lambda *_: 0.01)
    ended = []
    child = Unstartable(
        "x", ["print('here', flush=True)"], print, lambda: ended.append(1)
    )

    async def story():
        before = len(os.listdir("/proc/self/fd"))
        with pytest.raises(FileNotFoundError):
            await child.run()
        assert len(os.listdir("/proc/self/fd")) == before
        keeping = asyncio.create_task(child.keep())
        await child.ready.wait()
        await child.stop(1)
        await keeping

    with capture_logs() as events:
        uvloop.run(asyncio.wait_for(story(), STUCK_S))
    assert ended
    first = next(one for one in events if one["event"] == "ended")
    assert first["why"] == "cannot be started: No such file or directory"


class StoppedMeanwhile(Script):
    """A child that is asked to stop while its process is being made."""

    def command(self):
        self.signal(signal.SIGTERM)
        return super().command()


def test_a_child_that_is_stopped_while_it_is_started_is_not_left_behind():
    child = StoppedMeanwhile("x", ["import time; time.sleep(60)"], print)
    code = uvloop.run(asyncio.wait_for(child.run(), STUCK_S))
    assert code == -signal.SIGTERM


def test_no_thread_is_needed_to_hear_that_a_child_ended(monkeypatch):
    """Where there is none left, it would run on with nobody who starts it again."""

    def none_left(_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", none_left)
    child = Script("x", ["exit(4)"], print)
    assert uvloop.run(asyncio.wait_for(child.run(), STUCK_S)) == 4


STUBBORN = """
    import signal, subprocess, sys, time
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    print(other.pid, flush=True)
    time.sleep(60)
"""


def test_a_child_that_does_not_stop_is_killed_with_what_it_left():
    heard = []
    child = Script("x", [STUBBORN], heard.append)

    async def story():
        running = asyncio.create_task(child.run())
        await child.ready.wait()
        await child.stop(0.3)
        return await running

    assert uvloop.run(asyncio.wait_for(story(), STUCK_S)) == -signal.SIGKILL
    assert until_gone(int(heard[0]))


def test_a_child_that_ended_and_waits_for_its_restart_has_no_group_to_signal(
    monkeypatch,
):
    """Its number may be another program's by now."""
    paused, signalled = asyncio.Event(), []
    child = Script("x", ["exit(1)"], print, paused.set)

    async def story():
        keeping = asyncio.create_task(child.keep())
        await paused.wait()
        monkeypatch.setattr(os, "killpg", lambda *its: signalled.append(its))
        await child.stop(1)
        await keeping

    uvloop.run(asyncio.wait_for(story(), STUCK_S))
    assert signalled == []


def until_gone(pid: int) -> bool:
    patience = Patience()
    while patience.lasts():
        try:
            os.kill(pid, 0)
            with open(f"/proc/{pid}/stat") as stat:
                if stat.read().rpartition(")")[2].split()[0] == "Z":
                    return True
        except (ProcessLookupError, FileNotFoundError):
            return True
        time.sleep(0.02)
    return False


CHILD = """
import time
from broker.cli.supervisor import die_with_parent
die_with_parent()
print("ready", flush=True)
time.sleep(60)
"""
PARENT = f"""
import os, subprocess, sys, time
env = os.environ | {{{supervisor.PARENT_VARIABLE!r}: str(os.getpid())}}
started = subprocess.Popen([sys.executable, "-c", {CHILD!r}], env=env)
print(started.pid, flush=True)
time.sleep(60)
"""


def test_a_child_dies_with_a_parent_that_is_killed():
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT],
        stdout=subprocess.PIPE,
        text=True,
    )
    lines = {parent.stdout.readline().strip(), parent.stdout.readline().strip()}
    [pid] = [int(line) for line in lines if line != "ready"]
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert until_gone(pid)


def said_by(admin_wanted: bool, *lines: str) -> list[str]:
    heard: list[str] = []
    told = Supervisor([], admin_wanted, True, heard.append)
    for line in lines:
        told._on_line(line)
    return heard


def test_ready_is_said_once_when_all_parts_have_said_it():
    broker = "ready kafka=h:1 tables=/d/tables"
    admin = "ready admin=http://h:2"
    whole = "ready kafka=h:1 admin=http://h:2 tables=/d/tables"
    assert said_by(True, broker) == []
    assert said_by(True, broker, admin) == [whole]
    assert said_by(True, broker, admin, admin) == [whole]
    assert said_by(False, broker) == ["ready kafka=h:1 tables=/d/tables"]
    assert said_by(True, "compactor ready") == ["compactor ready"]


def test_the_ready_line_names_the_relaxed_mode_and_a_path_of_any_words():
    tables = "tables=/my data/x=y tables=z/tables"
    broker, admin = f"ready kafka=h:1 sync=interval {tables}", "ready admin=http://h:2"
    whole = f"ready kafka=h:1 admin=http://h:2 sync=interval {tables}"
    assert said_by(True, broker, admin) == [whole]


@pytest.mark.parametrize("line", ["ready to go", "ready", "ready a b=c", "readyX"])
def test_a_line_that_looks_like_ready_is_said_as_it_is(line):
    assert said_by(True, line) == [line]


def test_what_a_broker_says_before_it_is_ready_starts_nothing():
    up = Supervisor([], True, True, print)
    up._on_line("a line of a library")
    assert not up.broker.ready.is_set()
    up._on_line("ready kafka=h:1 tables=/t")
    assert up.broker.ready.is_set()


def test_an_admin_plane_that_does_not_come_up_keeps_nobody_from_kafka():
    heard: list[str] = []
    told = Supervisor([], True, True, heard.append)
    told._on_line("ready kafka=h:1 tables=/t")
    told._go_without_admin()
    assert heard == ["ready kafka=h:1 tables=/t"]


SERVES = "print('ready kafka=h:1 tables=/t', flush=True); import time; time.sleep(600)"
HANGS = "import time; time.sleep(600)"
LATE = """
    import signal, time
    def come_up(*_):
        print("ready admin=http://h:2", flush=True)
        exit(0)
    signal.signal(signal.SIGTERM, come_up)
    open({path!r}, "w").close()
    time.sleep(600)
"""
DIES = """
    import os, time
    print("ready kafka=h:1 tables=/t", flush=True)
    while not os.path.exists({path!r}):
        time.sleep(0.02)
    exit(7)
"""


def with_parts(heard: list[str], broker: str, admin: str) -> Supervisor:
    """One whose parts are Python texts."""
    up = Supervisor([], True, False, heard.append)
    up.broker = Script("broker", [broker], up._on_line)
    up._admin = lambda: Script("admin", [admin], up._on_line)
    return up


def test_an_admin_plane_that_hangs_keeps_nobody_from_kafka(monkeypatch):
    monkeypatch.setattr(supervisor, "ADMIN_WAIT_S", 0.2)
    heard: list[str] = []
    up = with_parts(heard, SERVES, HANGS)

    async def story():
        running = asyncio.create_task(up.run())
        while not heard:
            await asyncio.sleep(0.02)
        assert up.others[0].process.returncode is None
        up._on_signal()
        return await running

    with capture_logs() as events:
        assert uvloop.run(asyncio.wait_for(story(), STUCK_S)) == 0
    assert heard == ["ready kafka=h:1 tables=/t"]
    [late] = [one for one in events if one.get("part") == "admin"]
    assert late["event"] == "not there in time"


def test_a_mistake_in_the_watch_itself_is_logged_and_kafka_served():
    heard: list[str] = []
    up = with_parts(heard, SERVES, HANGS)
    up._admin = lambda: None

    async def story():
        running = asyncio.create_task(up.run())
        await up.broker.ready.wait()
        assert not running.done()
        up._on_signal()
        up.others.clear()
        return await running

    with capture_logs() as events:
        assert uvloop.run(asyncio.wait_for(story(), STUCK_S)) == 0
    assert [one["event"] for one in events] == ["parts are started again no more"]


def test_nothing_is_ready_behind_the_end_of_the_broker(tmp_path):
    """Nor when the plane that is being stopped has just come up."""
    heard: list[str] = []
    path = str(tmp_path / "loaded")
    up = with_parts(heard, DIES.format(path=path), LATE.format(path=path)).run()
    assert uvloop.run(asyncio.wait_for(up, STUCK_S)) == 1
    assert heard == []


def test_a_broker_that_cannot_be_started_ends_up_with_its_reason(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    heard: list[str] = []
    with capture_logs() as events:
        up = Supervisor([], True, True, heard.append).run()
        assert uvloop.run(asyncio.wait_for(up, STUCK_S)) == 1
    [why] = [one["why"] for one in events if one.get("part") == "broker"]
    assert why == "cannot be started: No such file or directory"
    assert heard == []


def test_an_up_that_stops_starts_no_compactor(monkeypatch):
    """The broker may say that it is ready while the plane is being stopped."""
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    up = Supervisor([], False, True, print)

    async def story():
        following = asyncio.create_task(up._start_others())
        await asyncio.sleep(0)
        up._on_signal()
        up.broker.ready.set()
        await asyncio.wait({following}, timeout=1)
        assert up.others == []
        assert following.done()

    uvloop.run(story())
