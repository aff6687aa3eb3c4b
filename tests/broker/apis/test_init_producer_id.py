"""InitProducerId, over the wire."""

import pytest

from broker.protocol.errors import ErrorCode
from broker.protocol.messages.init_producer_id import InitProducerIdRequest
from tests.support.coordinating import housed, story


@pytest.mark.parametrize("version", range(6))
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


@pytest.mark.parametrize("version", range(6))
def test_a_transactional_id_is_refused(tmp_path, version):
    async def play():
        async with housed(tmp_path) as house:
            answer = await house.ask(InitProducerIdRequest("t", 60_000), version)
            refused = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            assert answer.error_code == refused
            assert (answer.producer_id, answer.producer_epoch) == (-1, -1)

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
            answer = await house.ask(InitProducerIdRequest(None), 4)
            assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    story(play)
