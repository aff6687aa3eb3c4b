"""A disk that hangs: who waits is told in time, the rest goes on when it does."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.apis.produce import produce
from broker.protocol.errors import ErrorCode
from broker.records.batch import read_header
from broker.runtime.partitions.overdue import LOOK_MS, STALLED_MS, Overdue, Waiting
from broker.runtime.partitions.partition import Partition
from broker.runtime.services import Broker
from tests.support.clock import ManualClock
from tests.support.files import ForgetfulFiles
from tests.support.rig import (
    batch_of,
    create,
    fetch_one,
    produce_one,
    produce_request,
    rig,
    run,
    start,
    values_in,
)

TIMEOUT_MS = 30_000  # of `produce_request`


class Hung:
    """A broker whose disk hangs inside a sync until it is let go."""

    def __init__(self, broker: Broker, clock: ManualClock, held: threading.Event):
        self.broker = broker
        self.clock = clock
        self.held = held

    def ask(self, value: bytes, acks: int = -1, **more: Any) -> asyncio.Future[Any]:
        request = produce_request("t", (0, batch_of(value, **more)), acks=acks)
        return asyncio.ensure_future(_answer(start(produce, request, self.broker, 9)))

    async def look(self, pass_ms: int) -> None:
        """Time passes, with a look at its beginning and at its end."""
        for step_ms in (0, pass_ms):
            self.clock.advance(step_ms)
            self.broker.partitions.overdue.look()
            await asyncio.sleep(0)

    async def until_it_answers(self) -> None:
        while self.broker.partitions.overdue.queue:
            await asyncio.sleep(0.01)
        self.broker.partitions.overdue.look()


async def _answer(awaited: Any) -> int:
    response = await awaited if hasattr(awaited, "__await__") else awaited
    code: int = response.responses[0].partition_responses[0].error_code
    return code


def with_a_hung_disk(
    tmp_path: Path, then: Callable[[Hung], Any], waiting_bytes_max: int = 1 << 20
) -> None:
    async def scenario() -> None:
        files, clock = ForgetfulFiles(), ManualClock()
        async with rig(tmp_path, files=files, clock=clock) as broker:
            await create(broker, "t")
            await produce_one(broker, "t", batch_of(b"before"))
            broker.partitions.overdue._waiting_bytes_max = waiting_bytes_max
            held = files.hold("fdatasync")
            try:
                await then(Hung(broker, clock, held))
            finally:
                held.set()

    run(scenario)


def test_who_waits_is_told_when_its_time_is_over(tmp_path: Path) -> None:
    async def then(hung: Hung) -> None:
        asked = hung.ask(b"late")
        await hung.look(LOOK_MS)
        assert not asked.done()
        await hung.look(TIMEOUT_MS - 1)
        assert not asked.done()
        await hung.look(1)
        assert await asked == ErrorCode.REQUEST_TIMED_OUT
        hung.held.set()
        while hung.broker.partitions.named("t", 0).high_watermark < 2:
            await asyncio.sleep(0.01)
        values = values_in(await fetch_one(hung.broker, "t", 0))
        assert values == [b"before", b"late"]  # it became durable all the same

    with_a_hung_disk(tmp_path, then)


def test_a_retry_is_told_too_and_the_next_one_gets_the_offset(tmp_path: Path) -> None:
    async def then(hung: Hung) -> None:
        first = hung.ask(b"x", producer=(7, 0, 0))
        await hung.look(LOOK_MS)
        again = hung.ask(b"x", producer=(7, 0, 0))
        await hung.look(TIMEOUT_MS)
        assert await first == ErrorCode.REQUEST_TIMED_OUT
        await hung.look(TIMEOUT_MS)
        assert await again == ErrorCode.REQUEST_TIMED_OUT
        last = hung.ask(b"x", producer=(7, 0, 0))
        hung.held.set()
        assert await last == ErrorCode.NONE
        assert hung.broker.partitions.named("t", 0).high_watermark == 2

    with_a_hung_disk(tmp_path, then)


def test_the_status_says_so_until_the_disk_answers(tmp_path: Path) -> None:
    async def then(hung: Hung) -> None:
        wal = hung.broker.wal
        asked = hung.ask(b"late", acks=1)
        await hung.look(STALLED_MS - 1)
        assert wal.trouble is None
        await hung.look(1)
        assert wal.trouble == "the disk has not answered for 5 s"
        hung.held.set()
        await asked
        await hung.look(0)
        assert wal.trouble is None

    with_a_hung_disk(tmp_path, then)


def test_a_short_stall_refuses_nobody_however_much_waits(tmp_path: Path) -> None:
    """What is refused comes again, behind what its producer sent later."""

    async def then(hung: Hung) -> None:
        asked = [hung.ask(b"first" + b"v" * 1000) for _ in range(3)]
        await hung.look(LOOK_MS)
        asked.append(hung.ask(b"later"))
        await hung.look(LOOK_MS)
        assert not any(one.done() for one in asked)
        hung.held.set()
        assert await asyncio.gather(*asked) == [0] * 4
        values = values_in(await fetch_one(hung.broker, "t", 0))
        assert [value[:5] for value in values[1:]] == [b"first"] * 3 + [b"later"]

    with_a_hung_disk(tmp_path, then, waiting_bytes_max=2000)


def test_no_more_than_some_bytes_wait_when_their_producers_have_gone(
    tmp_path: Path,
) -> None:
    async def then(hung: Hung) -> None:
        asked = [hung.ask(b"v" * 1000) for _ in range(3)]
        await hung.look(LOOK_MS)
        await hung.look(TIMEOUT_MS)
        assert await asyncio.gather(*asked) == [ErrorCode.REQUEST_TIMED_OUT] * 3
        refused = await hung.ask(b"v" * 1000)
        assert refused == ErrorCode.KAFKA_STORAGE_ERROR
        hung.held.set()
        await hung.until_it_answers()
        assert await hung.ask(b"after") == ErrorCode.NONE

    with_a_hung_disk(tmp_path, then, waiting_bytes_max=2000)


def test_a_small_batch_counts_for_the_objects_that_it_takes(tmp_path: Path) -> None:
    async def then(hung: Hung) -> None:
        asked = [hung.ask(b"v") for _ in range(20)]
        await hung.look(LOOK_MS)
        await hung.look(TIMEOUT_MS)
        assert await asyncio.gather(*asked) == [ErrorCode.REQUEST_TIMED_OUT] * 20
        assert await hung.ask(b"v") == ErrorCode.KAFKA_STORAGE_ERROR

    with_a_hung_disk(tmp_path, then, waiting_bytes_max=20 << 10)


def test_a_disk_that_is_slow_and_moves_times_nobody_out(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = ManualClock()
        async with rig(tmp_path, clock=clock) as broker:
            await create(broker, "t")
            for _ in range(5):
                request = produce_request("t", (0, batch_of(b"v")))
                asked = start(produce, request, broker, 9)
                broker.partitions.overdue.look()
                clock.advance(10 * TIMEOUT_MS)
                assert await _answer(asked) == ErrorCode.NONE

    run(scenario)


def test_what_is_finished_while_others_are_asked_is_not_told_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("broker.runtime.partitions.overdue.BATCHES_A_TURN", 1)
    wal: Any = SimpleNamespace(look_at_space=lambda: None)
    clock, told = ManualClock(), list[int]()
    soon: list[Callable[[], None]] = []
    timers: Any = SimpleNamespace(
        after=lambda delay_ms, then: None if delay_ms else soon.append(then)
    )
    overdue = Overdue(wal, clock, 1 << 20)
    overdue.start(timers)
    for base in range(3):
        overdue.queue.append(a_waiting(base, told))
    for _ in range(2):  # the first look finds them, from the second on time counts
        overdue.look()
        while soon:
            soon.pop()()
    clock.advance(TIMEOUT_MS)
    overdue.look()
    assert told == [0]
    overdue.queue[1].location = 4096  # the disk has answered
    overdue.look()  # comes while one is under way
    while soon:
        soon.pop()()
    assert told == [0, 2]


def a_waiting(base: int, told: list[int]) -> Waiting:
    header = read_header(batch_of(b"v"))
    one = Waiting(1, 0, b"", header, base, base, 1, lambda _: None)
    one.owner = cast("Partition", SimpleNamespace(expire_retries=lambda _: None))
    one.timeout_ms, one.expires_ms = TIMEOUT_MS, -1
    one.reply = lambda _base, _stamp, _error: told.append(base)
    return one
