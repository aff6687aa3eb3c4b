"""No producer id comes twice, whatever happens."""

import asyncio

import pytest

from broker.catalog.catalog import Catalog
from broker.protocol.errors import KafkaError
from broker.runtime.coordination.producer_ids import ProducerIds
from tests.support.coordinating import story


def test_many_at_once_get_different_ids_from_one_block(tmp_path):
    async def play():
        with Catalog.open(tmp_path / "catalog.db") as catalog:
            ids = ProducerIds(catalog)
            given = await asyncio.gather(*(ids.next() for _ in range(1_000)))
            assert sorted(given) == list(range(1_000))
            assert catalog.commits == 1

    story(play)


def test_the_next_block_is_fetched_when_one_is_used_up(tmp_path):
    async def play():
        with Catalog.open(tmp_path / "catalog.db") as catalog:
            ids = ProducerIds(catalog)
            given = [await ids.next() for _ in range(2_500)]
            assert len(set(given)) == 2_500
            assert catalog.commits == 3

    story(play)


def test_a_restart_never_repeats_an_id(tmp_path):
    given = []

    async def play():
        with Catalog.open(tmp_path / "catalog.db") as catalog:
            given.append(await ProducerIds(catalog).next())

    for _ in range(3):
        story(play)
    assert given == [0, 1_000, 2_000]


def test_who_goes_away_while_waiting_takes_no_block_from_the_others(tmp_path):
    async def play():
        with Catalog.open(tmp_path / "catalog.db") as catalog:
            ids = ProducerIds(catalog)
            impatient = asyncio.ensure_future(ids.next())
            patient = asyncio.ensure_future(ids.next())
            await asyncio.sleep(0)
            impatient.cancel()
            assert await patient == 0

    story(play)


def test_who_comes_in_the_turn_in_which_the_block_does_gets_an_id_of_it(tmp_path):
    """The block is done, and nobody has been told yet: waiting for it is no wait."""

    async def play():
        with Catalog.open(tmp_path / "catalog.db") as catalog:
            ids = ProducerIds(catalog)
            first = asyncio.ensure_future(ids.next())
            await asyncio.sleep(0)
            catalog.change(lambda connection: None)  # the loop stands: it is behind
            asked, load = [], ids._load

            async def counted():
                asked.append(1)
                assert len(asked) < 10, "it asks again and again in one turn"
                await load()

            ids._load = counted
            second = asyncio.ensure_future(ids.next())
            third = asyncio.ensure_future(ids.next())
            assert sorted(await asyncio.gather(first, second, third)) == [0, 1, 2]
            assert catalog.commits <= 2

    story(play)


def test_a_catalog_that_cannot_be_written_is_told_and_asked_again(tmp_path):
    async def play():
        catalog = Catalog.open(tmp_path / "catalog.db")
        ids = ProducerIds(catalog)
        catalog.close()
        for _ in range(2):
            with pytest.raises(KafkaError):
                await ids.next()

    story(play)
