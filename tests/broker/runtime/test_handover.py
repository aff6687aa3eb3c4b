"""What threads have finished is called on the loop, in order, a part in each turn."""

import asyncio
import threading
from functools import partial
from itertools import pairwise

from broker.runtime.handover import CALLED_A_TURN, Handover
from tests.support.patience import STUCK_S


def test_a_turn_calls_a_part_and_the_order_stays() -> None:
    count = 3 * CALLED_A_TURN + 1

    async def story() -> None:
        loop, handover, called = asyncio.get_running_loop(), Handover(), list[int]()
        for number in range(count):
            handover.put(loop, partial(called.append, number))
        seen = [len(called)]
        while not handover.is_empty:
            await asyncio.sleep(0)
            seen.append(len(called))
        assert called == list(range(count))
        assert all(b - a <= CALLED_A_TURN for a, b in pairwise(seen))

    asyncio.run(story())


def test_what_has_much_to_do_has_a_turn_for_itself() -> None:
    async def story() -> None:
        loop, handover, called = asyncio.get_running_loop(), Handover(), list[int]()
        costs = [1, CALLED_A_TURN - 1, CALLED_A_TURN, 7 * CALLED_A_TURN, 2, 3]
        for number, cost in enumerate(costs):
            handover.put(loop, partial(called.append, number), cost)
        seen = []
        while not handover.is_empty:
            await asyncio.sleep(0)
            seen.append(len(called))
        assert seen == [2, 3, 4, 6]
        assert called == sorted(called)

    asyncio.run(story())


def test_what_comes_while_some_are_called_makes_no_turn_longer() -> None:
    """As when the catalog's thread commits on and the loop does not keep up."""
    count = 4 * CALLED_A_TURN

    async def story() -> None:
        loop, handover, called = asyncio.get_running_loop(), Handover(), list[int]()

        def call(number: int) -> None:
            called.append(number)
            if number == 0:
                for _ in range(CALLED_A_TURN):
                    handover.put(loop, partial(call, 1))

        for _ in range(count):
            handover.put(loop, partial(call, 0))
        seen = [0]
        while not handover.is_empty:
            await asyncio.sleep(0)
            seen.append(len(called))
        assert max(b - a for a, b in pairwise(seen)) == CALLED_A_TURN
        assert len(called) == count + count * CALLED_A_TURN

    asyncio.run(story())


def test_nothing_is_forgotten_between_threads_and_the_loop() -> None:
    threads_count, each = 4, 500

    async def story() -> None:
        loop, handover, called = asyncio.get_running_loop(), Handover(), list[int]()
        done = asyncio.Event()

        def note(number: int) -> None:
            called.append(number)
            if len(called) == threads_count * each:
                done.set()

        def put(thread: int) -> None:
            for number in range(each):
                handover.put(loop, partial(note, thread * each + number))

        threads = [
            threading.Thread(target=put, args=(n,)) for n in range(threads_count)
        ]
        for thread in threads:
            thread.start()
        await asyncio.wait_for(done.wait(), STUCK_S)
        for thread in threads:
            thread.join()
        for n in range(threads_count):  # each thread's in its order
            own = [number for number in called if number // each == n]
            assert own == sorted(own)

    asyncio.run(story())


def test_what_a_call_puts_is_called_as_well() -> None:
    async def story() -> None:
        loop, handover, done = asyncio.get_running_loop(), Handover(), asyncio.Event()
        handover.put(loop, lambda: handover.put(loop, done.set))
        await asyncio.wait_for(done.wait(), STUCK_S)
        assert handover.is_empty

    asyncio.run(story())
