"""Changes of a group are made in the order in which they were asked for."""

import asyncio
import random
from functools import partial
from itertools import pairwise

import pytest

from broker.protocol.errors import ErrorCode, KafkaError
from broker.runtime.coordination.change_order import (
    BYTES_OF_ONE,
    CHANGE_BYTES,
    HANDED_A_TURN,
    ChangeOrder,
    Part,
)
from tests.support.coordinating import story

FULL = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "full")


class Made:
    """What was made, in order, and what it waits for."""

    def __init__(self):
        self.names, self.durable = [], []

    def make(self, name):
        self.names.append(name)
        self.durable.append(asyncio.get_running_loop().create_future())
        return self.durable[-1]

    def asked(self, name):
        return partial(self.make, name)

    def parts(self, *names, held_bytes=10):
        return [Part(self.asked(name), held_bytes) for name in names]

    async def count(self, wanted):
        """Wait until so many were made; no more are."""
        while len(self.names) < wanted:
            await asyncio.sleep(0)
        for _ in range(5):
            await asyncio.sleep(0)
        assert len(self.names) == wanted

    def finish(self, error=None):
        """All that was made is durable, or failed."""
        for one in self.durable:
            if not one.done():
                one.set_exception(error) if error else one.set_result(None)


def test_without_a_change_in_parts_nothing_waits():
    async def play():
        order, made = ChangeOrder(lambda _: False), Made()
        for name in "ab":
            order.in_order("g", made.asked(name), lambda: 10)
        assert (made.names, order.held_bytes) == (["a", "b"], 0)
        assert not order.has_queue("g")

    story(play)


def test_each_part_is_made_when_the_one_before_is_durable():
    async def play():
        order, made = ChangeOrder(lambda _: True), Made()
        done = order.in_parts("g", made.parts("1", "2"), 20)
        after = [order.in_order("g", made.asked(name), lambda: 5) for name in "ab"]
        more = order.in_parts("g", made.parts("3"), 10)
        order.in_order("h", made.asked("another group's"))
        assert order.held_bytes == 4 * CHANGE_BYTES + 20 + 2 * 5 + 10
        await made.count(2)
        assert order.held_bytes == 4 * CHANGE_BYTES + 10 + 2 * 5 + 10
        made.finish()
        await made.count(3)
        made.finish()
        await made.count(6)
        assert done.done()
        assert order.held_bytes == CHANGE_BYTES
        assert made.names == ["another group's", "1", "2", "a", "b", "3"]
        assert order.has_queue("g")
        made.finish()
        await asyncio.gather(*after, more, order.flush())
        assert (order.held_bytes, order.has_queue("g")) == (0, False)

    story(play)


def test_the_first_part_that_fails_is_the_last_and_others_are_made():
    async def play():
        order, made = ChangeOrder(lambda _: True), Made()
        failed = order.in_parts("g", made.parts("1", "2"), 20)
        after = order.in_order("g", made.asked("a"))
        await made.count(1)
        made.finish(FULL)
        await made.count(2)
        made.finish()
        with pytest.raises(KafkaError, match="full"):
            await failed
        await after
        assert made.names == ["1", "a"]
        assert order.held_bytes == 0

    story(play)


def test_what_has_no_room_is_refused_unless_it_is_the_first_or_owed():
    async def play():
        order, made = ChangeOrder(lambda _: False), Made()
        first = order.in_parts("g", made.parts("1"), 10)
        refused = [
            order.in_order("g", made.asked("a"), lambda: 1),
            order.in_parts("g", made.parts("2"), 10),
            order.in_parts("h", made.parts("3"), 10),
        ]
        codes = [one.exception().code for one in refused]
        assert codes == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 3
        owed = order.in_parts("g", made.parts("b"), 0, is_owed=True)
        await made.count(1)
        made.finish()
        await made.count(2)
        made.finish()
        await asyncio.gather(first, owed)
        assert made.names == ["1", "b"]
        assert (order.held_bytes, order.has_queue("h")) == (0, False)

    story(play)


@pytest.mark.parametrize("error", [None, FULL])
def test_what_is_dropped_has_the_outcome_of_what_is_made_instead(error):
    async def play():
        order, made = ChangeOrder(lambda _: True), Made()
        instead = asyncio.get_running_loop().create_future()
        order.drop("g", instead)  # there is nothing
        asked = [order.in_parts("g", made.parts("1", "2"), 20)]
        asked += [order.in_order("g", made.asked(name)) for name in "ab"]
        asked[1].cancel()  # its client went away
        await made.count(1)
        order.drop("g", instead)
        assert (order.held_bytes, order.has_queue("g")) == (0, False)
        after = order.in_order("g", made.asked("c"))
        made.finish(FULL)  # the part that was being made as well
        await made.count(2)
        assert [one.done() for one in asked] == [False, True, False]
        instead.set_exception(error) if error else instead.set_result(None)
        said = await asyncio.gather(asked[0], asked[2], return_exceptions=True)
        assert said == [error, error]
        assert isinstance(after.exception(), KafkaError)
        assert (order.held_bytes, made.names) == (0, ["1", "c"])

    story(play)


@pytest.mark.parametrize(
    ("held_bytes", "a_turn"), [(0, HANDED_A_TURN), (20 * BYTES_OF_ONE, 2)]
)
def test_few_are_handed_on_in_a_turn(held_bytes, a_turn):
    async def play():
        order, made = ChangeOrder(lambda _: True), Made()
        done = [order.in_parts("g", [], 0)]
        for number in range(3 * HANDED_A_TURN):
            make = made.asked(number)
            done.append(order.in_order("g", make, lambda: held_bytes))
        seen = [0]
        while order.has_queue("g"):
            await asyncio.sleep(0)
            seen.append(len(made.names))
        assert max(b - a for a, b in pairwise(seen)) == a_turn
        made.finish()
        await asyncio.gather(*done)
        assert made.names == list(range(3 * HANDED_A_TURN))

    story(play)


@pytest.mark.parametrize("seed", range(20))
def test_any_changes_are_made_in_their_order_and_answered(seed):
    async def play():
        chance = random.Random(seed)
        order, made = ChangeOrder(lambda _: chance.random() < 0.9), Made()
        asked, names = [], []
        for number in range(200):
            group, kind = chance.choice("gh"), chance.random()
            if kind < 0.2:
                parts = [(group, number, part) for part in range(chance.randrange(4))]
                names += parts
                held_bytes = 10 * len(parts)
                asked.append(order.in_parts(group, made.parts(*parts), held_bytes))
            elif kind < 0.9:
                names.append((group, number, 0))
                asked.append(order.in_order(group, made.asked(names[-1]), lambda: 7))
            else:
                names.append((group, number, 0))
                asked.append(made.make(names[-1]))
                order.drop(group, asked[-1])
            if chance.random() < 0.3:
                made.finish(FULL if chance.random() < 0.3 else None)
            for _ in range(chance.randrange(3)):
                await asyncio.sleep(0)
        while order.has_queue("g") or order.has_queue("h"):
            made.finish()
            await asyncio.sleep(0)
        made.finish()
        await asyncio.gather(*asked, return_exceptions=True)
        assert order.held_bytes == 0
        for group in "gh":
            done = [name for name in made.names if name[0] == group]
            found = set(done)
            assert done == [name for name in names if name in found]

    story(play)
