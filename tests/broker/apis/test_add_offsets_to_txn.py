"""AddOffsetsToTxn, over the wire."""

import pytest

from broker.protocol.errors import ErrorCode
from broker.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from tests.support.coordinating import housed, story
from tests.support.transactional import Transactional

VERSIONS = range(5)


def asked(producer, group_id="g", **fields):
    named = {
        "transactional_id": producer.transactional_id,
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
        "group_id": group_id,
    }
    return AddOffsetsToTxnRequest(**named | fields)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_group_is_part_of_the_transaction_which_it_begins(tmp_path, version):
    async def play():
        async with housed(tmp_path) as house:
            producer = await Transactional.begun(house.broker)
            for group_id in ("g", "g", "h"):
                answer = await house.ask(asked(producer, group_id), version)
                assert answer.error_code == ErrorCode.NONE
        async with housed(tmp_path) as house:  # it was durable
            found = house.broker.transactions.describe("x")
            assert (found.state, found.groups) == ("Ongoing", {"g", "h"})

    story(play)


@pytest.mark.parametrize("version", VERSIONS)
def test_who_is_not_the_producer_of_the_id_is_refused(tmp_path, version):
    async def play():
        async with housed(tmp_path) as house:
            old = await Transactional.begun(house.broker)
            producer = await Transactional.begun(house.broker)

            async def code(request):
                return (await house.ask(request, version)).error_code

            fenced = (
                ErrorCode.INVALID_PRODUCER_EPOCH
                if version < 2
                else ErrorCode.PRODUCER_FENCED
            )
            mapping = ErrorCode.INVALID_PRODUCER_ID_MAPPING
            assert await code(asked(old)) == fenced
            assert await code(asked(producer, producer_epoch=9)) == fenced
            assert await code(asked(producer, producer_id=4_711)) == mapping
            assert await code(asked(producer, transactional_id="other")) == mapping
            empty = asked(producer, transactional_id="")
            assert await code(empty) == ErrorCode.INVALID_REQUEST
            assert house.broker.transactions.describe("x").state == "Empty"

    story(play)


def test_while_the_transaction_ends_nothing_joins_it(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            producer = await Transactional.begun(house.broker)
            await producer.add("g")
            producer.begin_end(commit=True)
            answer = await house.ask(asked(producer, "h"), 4)
            assert answer.error_code == ErrorCode.CONCURRENT_TRANSACTIONS

    story(play)


def test_a_catalog_that_fails_is_told(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            producer = await Transactional.begun(house.broker)
            house.catalog.close()
            answer = await house.ask(asked(producer), 3)
            assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE

    story(play)
