"""The sessions at work: their clock, their ids, and who waits in them."""

import asyncio
from collections import deque
from collections.abc import Callable
from pathlib import Path

from broker.fetching.session import EPOCH_MAX, TURN_PARTITIONS, FetchSession
from broker.fetching.sessions import EVICTION_MS
from broker.protocol.messages.fetch import FetchPartition
from broker.runtime.partitions.fetch_sessions import ServedSessions
from broker.settings import BrokerSettings
from tests.support.clock import ManualClock
from tests.support.fetching import SessionClient
from tests.support.rig import ENDLESS_MS, create, rig, run


def session_of(size: int) -> FetchSession:
    session = FetchSession(by_id=False)
    for index in range(size):
        session.update("t", b"", FetchPartition(index))
    return session


def test_ids_are_positive_and_never_given_twice() -> None:
    said = iter([b"\0\0\0\0", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\7"])
    sessions = ServedSessions(
        BrokerSettings(), ManualClock(), lambda _: next(said), lambda _: None
    )
    assert sessions.open(session_of(1)) == EPOCH_MAX
    assert sessions.open(session_of(1)) == 7


def test_a_silent_session_is_evicted_by_the_clock() -> None:
    clock, numbers = ManualClock(), iter(range(1, 9))
    settings = BrokerSettings(max_incremental_fetch_session_cache_slots=1)
    sessions = ServedSessions(
        settings, clock, lambda n: next(numbers).to_bytes(n, "big"), lambda _: None
    )
    assert sessions.open(session_of(9)) == 1
    assert not sessions.has_room(1)
    clock.advance(EVICTION_MS + 1)
    assert sessions.has_room(1)
    assert sessions.open(session_of(1)) == 2
    assert len(sessions.sessions) == 1


def test_a_large_session_that_is_removed_is_closed_to_its_end_in_turns() -> None:
    calls: deque[Callable[[], None]] = deque()
    sessions = ServedSessions(
        BrokerSettings(), ManualClock(), lambda _: b"\0\0\0\7", calls.append
    )
    session, turns = session_of(2 * TURN_PARTITIONS + 1), 0
    sessions.remove(sessions.open(session))
    assert session.is_closed
    assert session.due_count > 0, "not all in the turn of who asked"
    while calls:
        calls.popleft()()
        turns += 1
    assert (turns, session.due_count) == (2, 0)


def test_an_answer_that_is_there_is_waited_for_no_more(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            client = SessionClient(broker, "t")
            await client.fetch((0, 0))
            await client.fetch()
            sessions = broker.fetch_sessions
            for end in ("cut_short", "abandon"):
                waiting = client.start(max_wait_ms=ENDLESS_MS)
                assert len(sessions._waiting) == 1
                getattr(waiting, end)()
                await asyncio.sleep(0)
                assert len(sessions._waiting) == 0
            assert await client.fetch() == {}

    run(scenario)
