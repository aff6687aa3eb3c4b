"""Objects that are never finished: so much of all streams, and not for ever."""

import asyncio

import pytest

from admin_api.bodies import SHORT_BYTES
from admin_api.problems import Problem
from admin_api.records.delivery import _read, reports
from admin_api.records.unfinished import AllUnfinished, Unfinished

LONG = b'{"value": {"type": "STRING", "data": "' + b"x" * (2 * SHORT_BYTES)
SHORT = LONG[:SHORT_BYTES]


async def refused(_record):
    raise AssertionError("it was never whole")


async def unending(piece, more=None):
    yield piece
    await (more or asyncio.Event()).wait()


async def report_of(everyones, chunks):
    [(code, _)] = [one async for one in reports(chunks, refused, everyones)]
    return code


def test_an_object_that_goes_on_and_does_not_come_in_time_is_a_408():
    async def story():
        everyones = AllUnfinished(slow_s=0.0)
        code = await report_of(everyones, unending(LONG))
        return code, everyones.bytes

    assert asyncio.run(story()) == (408, 0)


def test_unfinished_objects_of_all_streams_have_a_limit_together():
    async def story():
        everyones, end = AllUnfinished(bytes_max=len(LONG)), asyncio.Event()
        first = asyncio.create_task(report_of(everyones, unending(LONG, end)))
        while not everyones.bytes:
            await asyncio.sleep(0)
        assert await report_of(everyones, unending(LONG)) == 429
        assert everyones.bytes == len(LONG)
        end.set()
        assert await first == 400  # it is not finished
        return everyones.bytes

    assert asyncio.run(story()) == 0


def test_a_short_object_is_refused_for_nobody_and_may_take_its_time():
    async def story():
        everyones, end = AllUnfinished(bytes_max=0, slow_s=0.0), asyncio.Event()
        waiting = asyncio.create_task(report_of(everyones, unending(SHORT, end)))
        while not everyones.bytes:
            await asyncio.sleep(0)
        other = Unfinished(everyones)
        with pytest.raises(Problem):
            other.hold(len(LONG))
        other.hold(0)
        end.set()
        assert await waiting == 400

    asyncio.run(story())


def test_a_stream_that_is_left_holds_nothing():
    async def story():
        everyones = AllUnfinished()
        waiting = asyncio.create_task(report_of(everyones, unending(LONG)))
        while not everyones.bytes:
            await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        return everyones.bytes

    assert asyncio.run(story()) == 0


def test_each_object_has_its_own_time():
    """Of a stream of long ones, where each piece ends one and begins the next."""
    whole = LONG + b'"}}'
    cut = len(whole) - 2
    pieces = [whole[:cut], *[whole[cut:] + whole[:cut]] * 3, whole[cut:]]

    async def story():
        everyones, began_s = AllUnfinished(), []

        async def came():
            for piece in pieces:
                yield piece
                began_s.append(held._began_s)

        async def report():
            raise AssertionError("nobody waits for it")

        async def sent(_record):
            return report()

        held, queue = Unfinished(everyones), asyncio.Queue()
        await _read(came(), sent, queue, held)
        while (one := queue.get_nowait()) is not None:
            one.close()
        return began_s, everyones.bytes

    began_s, left = asyncio.run(story())
    assert (len(set(began_s[:4])), began_s[4], left) == (4, None, 0)
