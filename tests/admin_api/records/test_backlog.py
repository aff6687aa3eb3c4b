"""Reports that wait: in order, in little room, and not for ever."""

import asyncio

from admin_api.records.backlog import PART_BYTES, Backlog

SOON_S, NEVER_S = 0.01, 3600.0
REPORT = b'{"error_code":200,"offset":%d}\r\n'


def test_what_is_put_is_taken_in_its_order_and_then_there_is_no_more():
    async def story():
        backlog = Backlog()
        put = [REPORT % number for number in range(20_000)]
        for report in put:
            backlog.put(report)
        backlog.end()
        taken = []
        while (some := await backlog.take()) is not None:
            taken.append(some)
        assert b"".join(taken) == b"".join(put)
        assert len(taken) > 2
        assert await backlog.take() is None

    asyncio.run(story())


def test_who_takes_waits_for_the_first_report():
    async def story():
        backlog = Backlog()
        taking = asyncio.create_task(backlog.take())
        await asyncio.sleep(0)
        assert not taking.done()
        backlog.put(b"")
        await asyncio.sleep(0)
        assert not taking.done()
        backlog.put(b"one")
        assert await taking == b"one"
        taking = asyncio.create_task(backlog.take())
        backlog.end()
        assert await taking is None

    asyncio.run(story())


def test_many_reports_take_a_tenth_of_their_bytes():
    async def story():
        backlog = Backlog(bytes_max=PART_BYTES)
        put = 0
        while await backlog.has_room(SOON_S):
            backlog.put(REPORT % put)
            put += 1
        assert put * len(REPORT) > 5 * PART_BYTES
        assert not await backlog.has_room(SOON_S)
        await backlog.take()
        assert await backlog.has_room(NEVER_S)

    asyncio.run(story())


def test_who_reads_slowly_is_waited_for():
    async def story():
        backlog = Backlog(bytes_max=0)
        for _ in range(2):
            backlog.put(b"x" * PART_BYTES)
        waiting = asyncio.create_task(backlog.has_room(NEVER_S))
        await backlog.take()
        await asyncio.sleep(0)
        assert not waiting.done()
        await backlog.take()
        assert await waiting

    asyncio.run(story())
