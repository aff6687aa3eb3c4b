"""Reports that wait: in order, in little room, and not for ever."""

import asyncio
import random

from admin_api.records.backlog import PART_BYTES, Backlog, Held

SOON_S, NEVER_S = 0.01, 3600.0
REPORT = b'{"error_code":200,"offset":%d}\r\n'


def test_what_is_put_is_taken_in_its_order_and_then_there_is_no_more():
    async def story():
        backlog = Backlog(Held())
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
        backlog = Backlog(Held())
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
        backlog = Backlog(Held(), bytes_max=PART_BYTES)
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
        backlog = Backlog(Held(), bytes_max=0)
        for _ in range(2):
            backlog.put(b"x" * PART_BYTES)
        waiting = asyncio.create_task(backlog.has_room(NEVER_S))
        await backlog.take()
        await asyncio.sleep(0)
        assert not waiting.done()
        await backlog.take()
        assert await waiting

    asyncio.run(story())


def half_a_part(seed):
    """Bytes that take a little more than half of the room when compressed."""
    return random.Random(seed).randbytes(PART_BYTES // 2).hex().encode()


def test_all_streams_together_hold_so_much_and_who_reads_goes_on():
    async def story():
        together = Held(bytes_max=4 * PART_BYTES)
        idle, read = Backlog(together), Backlog(together)
        while await idle.has_room(SOON_S):
            idle.put(half_a_part(0))
        assert together.bytes > together.bytes_max
        for seed in range(2):
            assert await read.has_room(SOON_S)
            read.put(half_a_part(seed))
        assert not await read.has_room(SOON_S)
        assert await read.take() == half_a_part(0)
        assert await read.has_room(NEVER_S)

    asyncio.run(story())


def test_room_that_other_streams_made_is_heard_of_at_once():
    async def story():
        together = Held(bytes_max=2 * PART_BYTES)
        gone, waiting = Backlog(together), Backlog(together)
        for backlog in (gone, gone, waiting, waiting):
            backlog.put(half_a_part(0))
        assert not await waiting.has_room(SOON_S)
        room = asyncio.create_task(waiting.has_room(NEVER_S))
        await asyncio.sleep(0)
        assert not room.done()
        gone.forget()
        assert await room
        waiting.forget()
        assert together.bytes == 0
        assert not together.backlogs

    asyncio.run(story())
