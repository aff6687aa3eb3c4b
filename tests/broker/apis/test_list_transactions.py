"""ListTransactions, over the wire; each answer was asked of Apache Kafka 4.3.1."""

import pytest

from broker.protocol.errors import ErrorCode
from broker.protocol.messages.list_transactions import ListTransactionsRequest
from tests.support.coordinating import House, housed, story
from tests.support.transactional import Transactional

VERSIONS = range(3)


async def some(house: House) -> dict[str, int]:
    """An id without a transaction, one that committed, and, a second later, two open
    ones; their producer ids."""
    done = await Transactional.begun(house.broker, "done-1")
    await done.add("g")
    await done.end(commit=True)
    house.clock.advance(1_000)
    made = [await Transactional.begun(house.broker, "empty-1"), done]
    for name in ("open-1", "Open.2"):
        made.append(await Transactional.begun(house.broker, name))
        await made[-1].add("g")
    house.clock.advance(500)
    return {one.transactional_id: one.producer_id for one in made}


async def listed(house: House, version: int = 2, **filters):
    answer = await house.ask(ListTransactionsRequest(**filters), version)
    assert not answer.error_code
    return {one.transactional_id for one in answer.transaction_states}


@pytest.mark.parametrize("version", VERSIONS)
def test_ids_are_listed_with_their_producers_and_states(tmp_path, version):
    async def play():
        async with housed(tmp_path) as house:
            assert not await listed(house, version)
            ids = await some(house)
            answer = await house.ask(ListTransactionsRequest(), version)
            found = {
                one.transactional_id: (one.producer_id, one.transaction_state)
                for one in answer.transaction_states
            }
            assert found == {
                "empty-1": (ids["empty-1"], "Empty"),
                "done-1": (ids["done-1"], "CompleteCommit"),
                "open-1": (ids["open-1"], "Ongoing"),
                "Open.2": (ids["Open.2"], "Ongoing"),
            }

    story(play)


@pytest.mark.parametrize("version", VERSIONS)
def test_filters_by_state_are_taken_by_the_letter(tmp_path, version):
    async def play():
        async with housed(tmp_path) as house:
            await some(house)
            names = ["Ongoing", "ongoing", "Nope", "Nope", "", "Dead"]
            names += ["PrepareEpochFence", "Empty"]
            request = ListTransactionsRequest(names)
            answer = await house.ask(request, version)
            assert answer.unknown_state_filters == ["ongoing", "Nope", ""]
            found = {one.transactional_id for one in answer.transaction_states}
            assert found == {"open-1", "Open.2", "empty-1"}
            assert not await listed(house, version, state_filters=["Nope"])

    story(play)


@pytest.mark.parametrize("version", VERSIONS)
def test_filters_by_producer(tmp_path, version):
    async def play():
        async with housed(tmp_path) as house:
            ids = await some(house)
            wanted = [ids["open-1"], ids["open-1"], -1]
            assert await listed(house, version, producer_id_filters=wanted) == {
                "open-1"
            }
            assert not await listed(house, version, producer_id_filters=[4_711])

    story(play)


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_filters_by_how_long_ago_it_began(tmp_path, version):
    async def play():
        async with housed(tmp_path) as house:
            everything = set(await some(house))
            for asked_ms, found in [
                (-2, everything),
                (-1, everything),
                (0, everything),
                (499, everything),
                (500, {"done-1", "empty-1"}),
                (1_500, {"empty-1"}),
                (2**63 - 1, set()),
            ]:
                assert await listed(house, version, duration_filter=asked_ms) == found

    story(play)


def test_filters_by_pattern(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            everything = set(await some(house))
            for pattern, found in [
                (None, everything),
                ("", everything),
                ("[oO]pen.*", {"open-1", "Open.2"}),
                ("open", set()),
            ]:
                asked = {"transactional_id_pattern": pattern}
                assert await listed(house, **asked) == found
            asked["state_filters"] = ["Empty"]
            asked["transactional_id_pattern"] = ".*-1"
            assert await listed(house, **asked) == {"empty-1"}
            request = ListTransactionsRequest(transactional_id_pattern="(")
            answer = await house.ask(request, 2)
            assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
            assert not answer.transaction_states

    story(play)


def test_a_coordinator_that_has_closed_says_so(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            await some(house)
            await house.broker.transactions.close()
            answer = await house.ask(ListTransactionsRequest(), 2)
            assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE

    story(play)
