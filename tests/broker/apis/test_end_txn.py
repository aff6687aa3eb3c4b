"""EndTxn, over the wire."""

import pytest

from broker.protocol.errors import ErrorCode
from tests.support.coordinating import housed, story
from tests.support.transactional_client import TransactionalClient

NONE = ErrorCode.NONE


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("version", range(6))
def test_an_end_is_answered_when_it_can_be_read(tmp_path, version, commit):
    async def play():
        async with housed(tmp_path) as house:
            client = TransactionalClient(house)
            await client.init()
            await client.add(0, 1)
            assert await client.written(0) == [NONE]
            assert await client.end(commit, version) is NONE
            assert (client.log(0).stable, client.log(1).stable) == (2, 1)
            aborted = client.log(0).aborted(0, 2)
            assert aborted == ([] if commit else [(client.producer_id, 0)])
            assert client.epoch == (1 if version >= 5 else 0)

    story(play)


@pytest.mark.parametrize("version", range(5))
def test_the_same_end_may_be_asked_for_again_and_no_other(tmp_path, version):
    async def play():
        async with housed(tmp_path) as house:
            client = TransactionalClient(house)
            await client.init()
            assert await client.end(True, version) is ErrorCode.INVALID_TXN_STATE
            await client.add(0)
            assert await client.end(True, version) is NONE
            assert await client.end(True, version) is NONE
            assert await client.end(False, version) is ErrorCode.INVALID_TXN_STATE
            assert client.log(0).durable == 1

    story(play)


def test_the_same_end_is_answered_with_the_same_epoch_again_from_version_5(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            client, again = TransactionalClient(house), TransactionalClient(house)
            await client.init()
            await client.written(0, version=12)
            again.producer_id, again.epoch = client.producer_id, client.epoch
            assert await client.end(True, 5) is NONE
            assert await again.end(True, 5) is NONE
            assert (again.producer_id, again.epoch) == (client.producer_id, 1)
            assert await client.end(True, 5) is ErrorCode.INVALID_TXN_STATE

    story(play)


@pytest.mark.parametrize("version", range(6))
def test_who_is_fenced_hears_it_in_words_of_the_version(tmp_path, version):
    async def play():
        async with housed(tmp_path) as house:
            zombie, client = TransactionalClient(house), TransactionalClient(house)
            await zombie.init()
            await client.init()
            fenced = ErrorCode.PRODUCER_FENCED
            if version < 2:
                fenced = ErrorCode.INVALID_PRODUCER_EPOCH
            assert await zombie.end(True, version) is fenced
            zombie.producer_id += 1
            other = ErrorCode.INVALID_PRODUCER_ID_MAPPING
            assert await zombie.end(True, version) is other
            nobody = TransactionalClient(house, "nobody")
            assert await nobody.end(True, version) is other
            nameless = TransactionalClient(house, "")
            assert await nameless.end(True, version) is ErrorCode.INVALID_REQUEST

    story(play)


def test_a_producer_whose_epochs_are_used_up_goes_on_with_another_id(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            client = TransactionalClient(house)
            await client.init()
            hosted = house.broker.transactions._hosted["x"].transaction
            hosted.metadata = hosted.metadata._replace(producer_epoch=2**15 - 2)
            client.epoch, before = 2**15 - 2, client.producer_id
            assert await client.written(0, version=12) == [NONE]
            assert await client.end(True, 5) is NONE
            assert client.producer_id != before
            assert client.epoch == 0

    story(play)


def test_a_catalog_that_fails_makes_the_client_ask_again(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            client = TransactionalClient(house)
            await client.init()
            await client.add(0)
            house.catalog.close()
            assert await client.end() is ErrorCode.COORDINATOR_NOT_AVAILABLE

    story(play)
