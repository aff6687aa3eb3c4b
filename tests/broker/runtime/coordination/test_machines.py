"""What becomes of a decision: applied, timed, journaled, answered, in that order."""

import asyncio
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import ClassVar

import pytest

from broker.machine import Decision
from broker.runtime.coordination.journal import Journal
from broker.runtime.coordination.machines import PART, Hosted, Shape
from tests.support.clock import ManualClock
from tests.support.coordinating import story
from tests.support.timers import ManualTimers


@dataclass(frozen=True)
class Noted:
    text: str
    durable: ClassVar[bool] = False


@dataclass(frozen=True)
class Kept:
    text: str
    durable: ClassVar[bool] = True


@dataclass
class Diary:
    """A machine that writes down what it is told; ``keep`` durably."""

    lines: list[str] = field(default_factory=list)

    def decide(self, command, now_ms) -> Decision:
        verb, text, ticket = command
        if verb == "crowd":  # a timer of 5 ms and a ticket each
            told = tuple((one, text) for one in ticket)
            return Decision((Noted(text),), told, dict.fromkeys(range(len(told)), 5))
        event = Kept(text) if verb == "keep" else Noted(f"{verb} {text}")
        delays = {"later": 5, "long": 50, "never": None}
        timers = {text: delays[verb]} if verb in delays else {}
        return Decision((event,), ((ticket, text),) if ticket else (), timers)

    def apply(self, event) -> None:
        self.lines.append(event.text)


class HeldCatalog:
    """A catalog whose commits succeed or fail when the test says so."""

    def __init__(self) -> None:
        self.held: list[Future] = []
        self.stored: list[str] = []

    def write(self, change, told) -> None:
        change(self.stored)
        self.held.append(Future())
        self.held[-1].add_done_callback(lambda done: told(done.exception()))


class Desk:
    """A diary among timers and a catalog; ``fired`` counts timers that ran out."""

    def __init__(self) -> None:
        self.diary, self.catalog, self.clock = Diary(), HeldCatalog(), ManualClock()
        self.timers = ManualTimers(self.clock)
        self.journal = Journal(self.catalog)
        self.fired = 0
        shape = Shape(
            store=lambda stored, event: stored.append(event.text),
            written=lambda event, error: (
                "lost" if error else "kept",
                event.text,
                None,
            ),
            fail=lambda ticket, error: ticket.set_exception(error),
            expired=lambda key: ("expired", key, None),
        )  # fmt: skip
        self.changes: list[int] = []
        self.hosted = Hosted(
            self.diary,
            shape,
            self.journal,
            self.timers,
            self.clock,
            self._fired,
            lambda: self.changes.append(len(self.diary.lines)),
        )

    def _fired(self) -> None:
        self.fired += 1

    def ask_crowd(self, count: int) -> list[asyncio.Future]:
        loop = asyncio.get_running_loop()
        tickets = [loop.create_future() for _ in range(count)]
        self.hosted.ask(("crowd", "all", tickets))
        return tickets

    def ask(self, verb: str, text: str) -> asyncio.Future:
        ticket = asyncio.get_running_loop().create_future()
        self.hosted.ask((verb, text, ticket))
        return ticket


def test_who_looks_at_the_state_is_called_after_each_change_of_it():
    async def play():
        desk = Desk()
        desk.hosted.ask(("keep", "a", None))
        assert desk.changes == [1]
        desk.hosted.ask(("note", "b", None))
        desk.catalog.held[0].set_result(None)
        await asyncio.sleep(0)
        assert desk.changes == [1, 2, 3], "and when it is written"

    story(play)


def test_what_needs_no_disk_is_answered_at_once():
    async def play():
        desk = Desk()
        desk.ask("keep", "a")
        assert desk.ask("note", "b").done()
        assert desk.hosted.ask_now(("note", "c", "t")) == "c"
        assert desk.diary.lines == ["a", "note b", "note c"]

    story(play)


def test_what_is_durable_is_applied_at_once_and_answered_when_it_is():
    async def play():
        desk = Desk()
        first, second = desk.ask("keep", "a"), desk.ask("keep", "b")
        assert desk.diary.lines == desk.catalog.stored == ["a", "b"]
        assert not first.done()
        desk.catalog.held[0].set_result(None)
        assert await first == "a"
        assert not second.done()
        # The machine was told before who asked was.
        assert desk.diary.lines == ["a", "b", "kept a"]
        desk.catalog.held[1].set_result(None)
        assert await second == "b"

    story(play)


def test_nobody_hears_an_answer_that_rests_on_what_failed():
    async def play():
        desk = Desk()
        ticket = desk.ask("keep", "a")
        desk.catalog.held[0].set_exception(OSError("disk full"))
        with pytest.raises(OSError, match="disk full"):
            await ticket
        assert desk.diary.lines == ["a", "lost a"]

    story(play)


def test_a_timer_asks_the_machine_unless_it_was_cancelled_or_set_anew():
    async def play():
        desk = Desk()
        for verb, text in (("later", "a"), ("later", "b"), ("never", "b")):
            desk.ask(verb, text)
        desk.timers.advance(4)
        desk.ask("later", "a")
        desk.timers.advance(4)
        assert desk.fired == 0
        desk.timers.advance(1)
        assert desk.fired == 1
        assert desk.diary.lines[-1] == "expired a"
        assert not len(desk.timers)

    story(play)


def test_a_timer_that_is_set_anew_ends_when_it_was_set_to_last_be_it_earlier():
    async def play():
        desk = Desk()
        desk.ask("long", "a")
        desk.timers.advance(1)
        desk.ask("long", "a")
        desk.ask("later", "a")
        desk.timers.advance(4)
        assert desk.fired == 0
        desk.timers.advance(1)
        assert desk.fired == 1
        assert not len(desk.timers)

    story(play)


def test_who_went_away_is_not_answered():
    async def play():
        desk = Desk()
        gone = desk.ask("keep", "a")
        gone.cancel()
        desk.catalog.held[0].set_result(None)
        await desk.journal.flush()
        assert desk.diary.lines == ["a", "kept a"]

    story(play)


def test_after_the_end_what_was_on_its_way_is_answered_and_nothing_decided():
    async def play():
        desk = Desk()
        desk.ask("later", "a")
        ticket = desk.ask("keep", "b")
        desk.hosted.close()
        assert not len(desk.timers)
        desk.catalog.held[0].set_result(None)
        assert await ticket == "b"
        assert desk.diary.lines == ["later a", "b"]

    story(play)


def test_a_large_decision_is_carried_out_in_parts_and_what_comes_later_after_it():
    async def play():
        desk = Desk()
        tickets = desk.ask_crowd(2 * PART + 1)
        after = desk.ask("later", "a")
        done = [sum(ticket.done() for ticket in tickets)]
        timers = [len(desk.timers)]
        for _ in range(2):
            await asyncio.sleep(0)
            done.append(sum(ticket.done() for ticket in tickets))
            timers.append(len(desk.timers))
        # Who came later has sent a part of what was before, and not more at a time.
        assert done == [2 * PART, 2 * PART + 1, 2 * PART + 1]
        assert timers == [2 * PART, 2 * PART + 2, 2 * PART + 2]
        assert after.done()

    story(play)


def test_a_timer_that_is_to_be_set_anew_does_not_count_meanwhile():
    async def play():
        desk = Desk()
        desk.ask_crowd(PART + 1)
        await asyncio.sleep(0)
        desk.timers.advance(4)
        desk.ask_crowd(PART + 1)
        desk.timers.advance(1)  # that of the last is due, and waits to be set anew
        assert desk.fired == 0
        await asyncio.sleep(0)
        desk.timers.advance(5)
        assert desk.fired == PART + 1
        assert not len(desk.timers)

    story(play)


def test_at_the_end_all_who_wait_for_their_part_are_answered_and_no_timer_is_set():
    async def play():
        desk = Desk()
        tickets = desk.ask_crowd(3 * PART)
        desk.hosted.close()
        assert all(ticket.done() for ticket in tickets)
        await asyncio.sleep(0)
        assert not len(desk.timers)

    story(play)
