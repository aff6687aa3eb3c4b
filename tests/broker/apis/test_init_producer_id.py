"""InitProducerId, over the wire."""

import asyncio

import pytest

from broker.protocol.errors import ErrorCode
from broker.protocol.messages.init_producer_id import InitProducerIdRequest
from tests.support.coordinating import housed, story
from tests.support.transactional_client import TransactionalClient


@pytest.mark.parametrize("version", range(7))
def test_every_idempotent_producer_gets_an_id_of_its_own(tmp_path, version):
    async def play():
        async with housed(tmp_path) as house:
            given = []
            for _ in range(2):
                answer = await house.ask(InitProducerIdRequest(None), version)
                assert (answer.error_code, answer.producer_epoch) == (0, 0)
                given.append(answer.producer_id)
            assert given == [0, 1]

    story(play)


def test_a_producer_that_has_an_id_gets_a_new_one(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            asked = InitProducerIdRequest(None, 0, producer_id=77, producer_epoch=3)
            answer = await house.ask(asked, 3)
            assert (answer.producer_id, answer.producer_epoch) == (0, 0)

    story(play)


@pytest.mark.parametrize("version", range(7))
def test_a_transactional_id_gives_epochs_of_which_the_newest_counts(tmp_path, version):
    async def play():
        async with housed(tmp_path) as house:
            zombie, client = TransactionalClient(house), TransactionalClient(house)
            assert await zombie.init(version) is ErrorCode.NONE
            assert await client.init(version) is ErrorCode.NONE
            assert (zombie.epoch, client.epoch) == (0, 1)
            assert zombie.producer_id == client.producer_id

    story(play)


@pytest.mark.parametrize("version", [3, 4, 5, 6])
def test_a_producer_goes_on_unless_another_came_in_between(tmp_path, version):
    async def play():
        async with housed(tmp_path) as house:
            first, second = TransactionalClient(house), TransactionalClient(house)
            await first.init(version)
            assert await first.init(version, goes_on=True) is ErrorCode.NONE
            assert first.epoch == 1
            await second.init(version)
            fenced = ErrorCode.PRODUCER_FENCED
            if version < 4:
                fenced = ErrorCode.INVALID_PRODUCER_EPOCH
            assert await first.init(version, goes_on=True) is fenced

    story(play)


def test_an_open_transaction_is_aborted_before_the_next_epoch_is_given(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            zombie, client = TransactionalClient(house), TransactionalClient(house)
            await zombie.init()
            await zombie.add(0)
            await zombie.written(0)
            while code := await client.init():
                assert code is ErrorCode.CONCURRENT_TRANSACTIONS
                await asyncio.sleep(0.001)
            assert client.epoch == 2, "one was taken to fence with"
            assert client.log(0).aborted(0, 2) == [(client.producer_id, 0)]

    story(play)


@pytest.mark.parametrize("timeout_ms", [-1, 0, 900_001])
def test_a_transaction_lasts_neither_no_time_nor_too_long(tmp_path, timeout_ms):
    async def play():
        async with housed(tmp_path) as house:
            client = TransactionalClient(house)
            invalid = ErrorCode.INVALID_TRANSACTION_TIMEOUT
            assert await client.init(timeout_ms=timeout_ms) is invalid
            assert (client.producer_id, client.epoch) == (-1, -1)
            assert not list(house.broker.transactions.all())

    story(play)


@pytest.mark.parametrize(
    "asked",
    [
        InitProducerIdRequest(""),
        InitProducerIdRequest(None, 0, producer_id=7),
        InitProducerIdRequest(None, 0, producer_epoch=7),
    ],
)
def test_half_an_identity_is_no_request(tmp_path, asked):
    async def play():
        async with housed(tmp_path) as house:
            answer = await house.ask(asked, 4)
            assert answer.error_code == ErrorCode.INVALID_REQUEST

    story(play)


def test_a_catalog_that_fails_makes_the_client_ask_again(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            house.catalog.close()
            for name in (None, "x"):
                answer = await house.ask(InitProducerIdRequest(name, 1), 4)
                assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    story(play)


@pytest.mark.parametrize(
    ("prepared", "kept", "code"),
    [
        (True, False, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (False, True, ErrorCode.UNSUPPORTED_VERSION),
        (True, True, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    ],
)
def test_two_phase_commit_is_not_allowed_and_fences_nobody(
    tmp_path, prepared, kept, code
):
    async def play():
        async with housed(tmp_path) as house:
            client = TransactionalClient(house)
            await client.init(6)
            asked = InitProducerIdRequest(client.id, 60_000, -1, -1, prepared, kept)
            answer = await house.ask(asked, 6)
            assert (answer.error_code, answer.producer_id) == (code, -1)
            assert answer.ongoing_txn_producer_id == -1
            assert await client.init(6, goes_on=True) is ErrorCode.NONE
            assert client.epoch == 1

    story(play)
