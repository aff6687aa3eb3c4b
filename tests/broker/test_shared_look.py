"""Who asks while a look is under way waits for the same one."""

import asyncio
import threading

from broker.shared_look import SharedLook


def test_of_many_who_ask_one_looks_and_goes_on_without_them() -> None:
    goes_on, looks = threading.Event(), list[int]()

    def look() -> int:
        looks.append(len(looks))
        goes_on.wait()
        return looks[-1]

    async def story() -> None:
        shared = SharedLook[int]()
        asked = [asyncio.ensure_future(shared.result(look)) for _ in range(3)]
        await asyncio.sleep(0)
        asked.pop().cancel()
        asked.append(asyncio.ensure_future(shared.result(look)))
        await asyncio.sleep(0)
        goes_on.set()
        assert await asyncio.gather(*asked) == [0, 0, 0]
        assert await shared.result(look) == 1

    asyncio.run(story())


def test_who_failed_is_asked_again() -> None:
    async def story() -> None:
        shared = SharedLook[int]()
        for _ in range(2):
            try:
                await shared.result(lambda: 1 // 0)
            except ZeroDivisionError:
                continue
            raise AssertionError
        assert await shared.result(lambda: 1) == 1

    asyncio.run(story())
