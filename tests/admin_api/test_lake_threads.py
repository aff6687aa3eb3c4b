"""Tables are read on threads of their own, whose disk may hang."""

import asyncio
import threading

import pytest

from admin_api.lake_threads import THREADS_MAX, LakeThreads
from admin_api.problems import Problem
from lakehouse.log import delta_log
from tests.support.patience import IDLE_S


def test_what_is_asked_for_is_given_or_raised():
    async def asked():
        threads = LakeThreads()
        assert await threads.run(divmod, 7, 2) == (3, 1)
        with pytest.raises(ZeroDivisionError):
            await threads.run(divmod, 7, 0)

    asyncio.run(asked())


def test_more_than_there_are_threads_wait_for_one_another():
    async def asked():
        threads = LakeThreads(threads_max=2)
        return await asyncio.gather(*(threads.run(pow, 2, n) for n in range(50)))

    assert asyncio.run(asked()) == [2**n for n in range(50)]


def test_who_finds_all_threads_hanging_is_refused_and_served_when_they_go_on():
    begun, goes_on = threading.Event(), threading.Event()

    def hang():
        begun.set()
        return goes_on.wait()

    async def asked():
        threads = LakeThreads(threads_max=1, wait_s=IDLE_S)
        hanging = asyncio.create_task(threads.run(hang))
        assert await asyncio.to_thread(begun.wait, IDLE_S)
        threads._wait_s = 0.05
        with pytest.raises(Problem, match="No table can be read now") as caught:
            await threads.run(divmod, 7, 2)
        assert caught.value.error_code == 50302
        threads._wait_s = IDLE_S
        goes_on.set()
        assert await hanging
        assert await threads.run(divmod, 7, 2) == (3, 1)

    asyncio.run(asked())


def test_a_disk_of_tables_that_hangs_holds_nobody_who_asks_for_no_table(
    plane, monkeypatch
):
    plane.create("hanging")
    goes_on = threading.Event()
    load = delta_log.load

    def hang(*args, **more):
        goes_on.wait()
        return load(*args, **more)

    monkeypatch.setattr(delta_log, "load", hang)
    topics = f"{plane.cluster}/topics"

    async def asked():
        async with plane.client() as client:
            table = "/v1/tables/hanging"
            tables = [
                asyncio.create_task(client.get(table)) for _ in range(THREADS_MAX * 10)
            ]
            async with asyncio.timeout(IDLE_S):
                found = [await client.get(url) for url in (topics, "/v1/health")]
            assert not any(one.done() for one in tables)
            goes_on.set()
            return found + await asyncio.gather(*tables)

    try:
        answers = asyncio.run(asked())
    finally:
        goes_on.set()
    assert {one.status_code for one in answers} == {200}
