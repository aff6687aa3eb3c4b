"""Virtual time, and whose turn it is: every choice follows from one seed.

The problem: a fault that needs a crash between two syncs and a retry in the same
millisecond is met once a month, and never again. The idea (FoundationDB's): run the
whole broker in one process whose clock, loop, threads, disk and network are ours. At
each instant some of them could go on: a loop that has callbacks ready, a thread whose
wait is over, a piece of data that has arrived. The seed chooses which one does, for one
step; when none can, time moves to the next thing that is due. So the same seed gives
the same run, and a run costs no time while everybody waits.

Threads are real ones, of which exactly one runs: it goes on until it waits or touches
the disk, and hands back. What can happen *within* such a step is not explored.
"""

import hashlib
import heapq
import itertools
import random
import threading
from collections.abc import Callable

SECOND_US = 1_000_000
STEPS_MAX = 1_000_000
_START_MS = 1_700_000_000_000


class Killed(BaseException):
    """Raised where a thread of a broker that was killed would go on."""


class Deadlock(AssertionError):
    """Nothing can go on, and nothing ever will."""


class Life:
    """One run of a process: from its start to its kill or stop."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.ended = False

    def check(self) -> None:
        """Raise Killed if it has ended."""
        if self.ended:
            raise Killed


class World:
    """Time, chance, the trace, and everything that can take a step."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.chance = random.Random(f"world {seed}")
        self.now_us = 0
        self.wall_skew_ms = 0
        self.trace: list[str] = []
        self.steps = 0
        self.loops: list[Turning] = []
        self.threads: list[SimThread] = []
        self.current: SimThread | None = None
        self.back = threading.Lock()
        self.back.acquire()
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._serial = itertools.count()

    # time

    def now_ms(self) -> int:
        return _START_MS + self.wall_skew_ms + self.now_us // 1000

    def monotonic_ms(self) -> int:
        return self.now_us // 1000

    def monotonic_ns(self) -> int:
        return self.now_us * 1000

    def at(self, delay_us: int, callback: Callable[[], None]) -> None:
        """Call back in so many microseconds; never before what was due earlier."""
        due = self.now_us + max(delay_us, 0)
        heapq.heappush(self._events, (due, next(self._serial), callback))

    def tell(self, what: str) -> None:
        """A line of the trace."""
        self.trace.append(f"{self.now_us / 1000:.3f} {what}")

    def trace_hash(self) -> str:
        return hashlib.sha256("\n".join(self.trace).encode()).hexdigest()[:16]

    # steps

    def run(self, done: Callable[[], bool], until_us: int) -> bool:
        """Take steps until ``done``, or until time is ``until_us``; whether it is."""
        while not done():
            if self.now_us >= until_us:
                return False
            self.step(until_us)
        return True

    def step(self, until_us: int) -> None:
        """Let one of those who can go on take a step; or let time pass."""
        able = self._able()
        if not able:
            self._pass_time(until_us)
            return
        self.steps += 1
        if self.steps > STEPS_MAX:
            raise Deadlock(f"{STEPS_MAX} steps, and no end")
        able[self.chance.randrange(len(able))]()
        if self.chance.random() < 0.3:  # computing takes time, too
            self.now_us += self.chance.randrange(1, 60)

    def _able(self) -> list[Callable[[], None]]:
        able: list[Callable[[], None]] = [
            loop.turn for loop in self.loops if loop.can_turn()
        ]
        able += [thread.step for thread in self.threads if thread.can_step()]
        if self._events and self._events[0][0] <= self.now_us:
            able.append(self._happen)
        return able

    def _happen(self) -> None:
        heapq.heappop(self._events)[2]()

    def _pass_time(self, until_us: int) -> None:
        due = [loop.next_us() for loop in self.loops]
        due += [thread.until_us for thread in self.threads]
        due += [self._events[0][0]] if self._events else []
        known = [at for at in due if at is not None]
        if not known:
            raise Deadlock("nobody can go on, and nothing is due")
        self.now_us = max(self.now_us, min([*known, until_us]))

    # threads

    def block(
        self, ready: Callable[[], bool] | None, timeout_us: int | None = None
    ) -> bool:
        """Let others go on until ``ready``, or until time is up; whether it is ready.

        On the world's own thread, which is where the loops run, only threads go on
        meanwhile: whoever blocks a loop stops it.
        """
        until_us = None if timeout_us is None else self.now_us + timeout_us
        thread = self.current
        if thread is None:
            self._let_threads_run(ready, until_us)
        else:
            thread.pause(ready, until_us)
        return ready is not None and ready()

    def _let_threads_run(
        self, ready: Callable[[], bool] | None, until_us: int | None
    ) -> None:
        while not (ready is not None and ready()):
            if until_us is not None and self.now_us >= until_us:
                return
            able = [thread for thread in self.threads if thread.can_step()]
            if able:
                able[self.chance.randrange(len(able))].step()
                continue
            due = [t.until_us for t in self.threads if t.until_us is not None]
            if until_us is not None:
                due.append(until_us)
            if not due:
                raise Deadlock("a loop waits for a thread that never comes")
            self.now_us = max(self.now_us, min(due))

    def end(self, life: Life) -> None:
        """Kill what runs in this life: its threads end where they are."""
        life.ended = True
        for thread in [t for t in self.threads if t.life is life]:
            thread.kill()


class Turning:
    """What the world asks of a loop."""

    def can_turn(self) -> bool:
        raise NotImplementedError

    def turn(self) -> None:
        raise NotImplementedError

    def next_us(self) -> int | None:
        raise NotImplementedError


class SimThread:
    """A real thread that runs only when it is told to take a step."""

    def __init__(
        self, world: World, life: Life, name: str, run: Callable[[], None]
    ) -> None:
        self.world, self.life, self.name = world, life, name
        self.until_us: int | None = None
        self.done = False
        self.holding = 0
        self._run = run
        self._ready: Callable[[], bool] | None = None
        self._timed = False
        self._go = threading.Lock()
        self._go.acquire()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._body, name=name, daemon=True)

    def start(self) -> None:
        self._ready = lambda: True
        self.world.threads.append(self)
        self._thread.start()

    def join(self) -> None:
        self.world.block(lambda: self.done)

    def can_step(self) -> bool:
        if self._ready is not None and self._ready():
            return True
        return self.until_us is not None and self.until_us <= self.world.now_us

    def step(self) -> None:
        """Go on until it waits again. Raises what it did not catch."""
        world = self.world
        world.current, before = self, world.current
        self._ready, self.until_us = None, None
        self._go.release()
        world.back.acquire()
        world.current = before
        if self.done:
            world.threads.remove(self)
            self._thread.join()
            if self._error is not None:
                raise self._error

    def pause(self, ready: Callable[[], bool] | None, until_us: int | None) -> None:
        """Hand back, and go on when told. On this thread only."""
        assert not self.holding, f"{self.name} waits while it holds a condition"
        self._ready, self.until_us = ready, until_us
        self.world.back.release()
        self._go.acquire()
        self.life.check()

    def kill(self) -> None:
        """Let it end where it waits; its life has ended."""
        while not self.done:
            self.step()

    def _body(self) -> None:
        self._go.acquire()
        try:
            self.life.check()
            self._run()
        except Killed:
            pass
        except BaseException as error:
            self._error = error
        finally:
            self.done = True
            self.world.back.release()
