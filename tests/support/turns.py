"""How long a coroutine holds the loop at a time, in processor time of this thread.

Processor time leaves out what others do, but not how fast the processor is. So a budget
is that of the machine on which it was set: where a fixed piece of work takes longer
than it did there, a turn may take as much longer.
"""

import asyncio
import gc
import sys
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from broker.runtime.process.long_work import pieces
from tests.support.peer import Peer
from tests.support.wire import frame_of

ROUNDS = 20
ASKED = 12
"""A request is asked so often at most, or until all turns are within the budget."""
BUDGET_MS = 10.0
"""No turn of the loop is longer on a machine on which `_work` takes `WORK_MS`."""
WORK_MS = 1.7


def normal_ms(ms: float) -> float:
    """What took so long just now, where budgets were set. How fast a machine is changes
    within seconds, so each round is judged by its own."""
    return ms if ms < BUDGET_MS else ms / slowness()


def slowness() -> float:
    """How many times longer work takes here and now than where budgets were set."""
    taken = sorted(turn_ms(_work) for _ in range(51))
    return max(1.0, taken[25] / WORK_MS)


def _work() -> None:
    found = {}
    for number in range(20_000):
        found[number & 1023] = number, str(number)


def turns_ms(story: Coroutine[Any, Any, Any]) -> list[float]:
    """Run ``story`` to its end; the milliseconds of each of its turns.

    It may give way (``asyncio.sleep(0)``, and as long work does) and wait for nothing
    else.
    """
    turns: list[float] = []
    while True:
        began = time.thread_time()
        try:
            waited_for = story.send(None)
        except StopIteration:
            turns.append((time.thread_time() - began) * 1000)
            return turns
        turns.append((time.thread_time() - began) * 1000)
        if waited_for is not None:
            turns += _pieces_ms(waited_for)
            waited_for._asyncio_future_blocking = False


def _pieces_ms(waited_for: Any) -> Iterator[float]:
    """Do the pieces of long work that a future waits for; those of each of them."""
    waiting = pieces()._work
    while not waited_for.done():
        assert waiting, "it waits for something"
        yield turn_ms(waiting.take_first())


def turn_ms(turn: Callable[[], Any]) -> float:
    """Processor milliseconds of this thread in one turn."""
    began = time.thread_time()
    turn()
    return (time.thread_time() - began) * 1000


def check_turn(what: str, longest_ms: Callable[[], float]) -> None:
    """Tell the least that ``longest_ms`` gives, and hold it within the budget."""
    longest = least_ms(longest_ms, BUDGET_MS)
    sys.stdout.write(f"{what}: longest turn {longest:.1f} ms\n")
    assert longest < BUDGET_MS, f"{what}: {longest:.1f} ms in one turn"


class Longest:
    """The longest turn of each kind of work, the least of some rounds, in ms."""

    def __init__(self) -> None:
        self.ms: dict[str, float] = {}

    def note(self, kind: str, turns: Iterable[float]) -> None:
        """Take in what the turns of one round took."""
        longest = normal_ms(max(turns))
        self.ms[kind] = min(longest, self.ms.get(kind, longest))

    def is_below(self, enough_ms: float) -> bool:
        """Whether there is no need for another round."""
        return max(self.ms.values()) < enough_ms

    def check(self, what: str) -> None:
        """Tell them, and hold each within the budget."""
        told = ", ".join(f"{kind} {ms:.1f}" for kind, ms in self.ms.items())
        sys.stdout.write(f"{what}: longest turns {told} ms\n")
        assert self.is_below(BUDGET_MS), told


@contextmanager
def uncollected() -> Iterator[None]:
    """What is measured meanwhile is not the collector, which a broker runs seldom."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def least_ms(measure: Callable[[], float], enough_ms: float) -> float:
    """The least that ``measure`` gives: company on the machine only ever adds.

    It is measured again until it is below ``enough_ms``, and at most 20 times.
    """
    least = normal_ms(measure())
    for _ in range(ROUNDS - 1):
        if least < enough_ms:
            break
        least = min(least, normal_ms(measure()))
    return least


@contextmanager
def callbacks_ms() -> Iterator[list[float]]:
    """The milliseconds of each callback that asyncio's own loop runs meanwhile.

    Those of this thread; on the loop that a test gets, not on uvloop.
    """
    turns: list[float] = []
    run = asyncio.events.Handle._run

    def measured(handle: asyncio.Handle) -> None:
        began = time.thread_time()
        try:
            run(handle)
        finally:
            turns.append((time.thread_time() - began) * 1000)

    asyncio.events.Handle._run = measured  # type: ignore[method-assign]
    try:
        yield turns
    finally:
        asyncio.events.Handle._run = run  # type: ignore[method-assign]


async def longest_callback_ms(
    server: Any,
    request: Any,
    version: int,
    prepare: Callable[[], Any] = lambda: None,
) -> float:
    """The longest callback while this is asked; the least of some rounds.

    ``prepare`` is called before each of them. The first answer is decoded.
    """
    host, port = server.address
    peer = await asyncio.to_thread(Peer, f"{host}:{port}")
    frame, least = frame_of(request, version), float("inf")

    def ask_again() -> None:
        peer.send(frame)
        peer.receive()

    for number in range(ASKED):
        prepare()
        gc.collect()
        with callbacks_ms() as turns:
            if number:
                await asyncio.to_thread(ask_again)
            else:
                await asyncio.to_thread(peer.ask, request, version)
        least = min(least, normal_ms(max(turns)))
        if least < BUDGET_MS:
            break
    peer.socket.close()
    return least


@contextmanager
def iterations_ms() -> Iterator[list[float]]:
    """The milliseconds of each iteration of asyncio's own loop meanwhile.

    All that was ready for it is run in one, before the loop looks at any socket again.
    That look is not counted: its end waits for the interpreter's lock, which takes
    processor time as well while another thread holds it.
    """
    iterations: list[float] = []
    run_once = asyncio.BaseEventLoop._run_once  # type: ignore[attr-defined]
    with callbacks_ms() as callbacks:

        def measured(loop: asyncio.BaseEventLoop) -> None:
            callbacks.clear()
            try:
                run_once(loop)
            finally:
                iterations.append(sum(callbacks))

        asyncio.BaseEventLoop._run_once = measured  # type: ignore[attr-defined]
        try:
            yield iterations
        finally:
            asyncio.BaseEventLoop._run_once = run_once  # type: ignore[attr-defined]
