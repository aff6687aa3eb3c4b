"""AddPartitionsToTxn, over the wire."""

import pytest

from broker.protocol.errors import ErrorCode
from broker.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from tests.support.coordinating import FLIGHTS, WEATHER, housed, story
from tests.support.transactional_client import TransactionalClient

NONE = ErrorCode.NONE


@pytest.mark.parametrize("version", range(6))
def test_what_is_added_may_be_written_and_nothing_else(tmp_path, version):
    async def play():
        async with housed(tmp_path) as house:
            client = TransactionalClient(house)
            await client.init()
            assert await client.add(0, 2, version=version) == {0: NONE, 2: NONE}
            missing = ErrorCode.INVALID_TXN_STATE
            assert await client.written(0, 1, 2) == [NONE, missing, NONE]

    story(play)


@pytest.mark.parametrize("version", range(6))
def test_beside_what_is_not_there_nothing_is_added(tmp_path, version):
    async def play():
        async with housed(tmp_path) as house:
            client = TransactionalClient(house)
            await client.init()
            assert await client.add(0, 9, version=version) == {
                0: ErrorCode.OPERATION_NOT_ATTEMPTED,
                9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            }
            nowhere = await client.add(0, topic="nowhere", version=version)
            assert nowhere == {0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
            assert await client.end() is ErrorCode.INVALID_TXN_STATE

    story(play)


@pytest.mark.parametrize("version", range(6))
def test_nobody_writes_to_kafka_s_own_topics(tmp_path, version):
    refused = ErrorCode.INVALID_TOPIC_EXCEPTION
    if version < 4:
        refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED

    async def play():
        async with housed(tmp_path) as house:
            client = TransactionalClient(house)
            await client.init()
            added = await client.add(0, topic="__consumer_offsets", version=version)
            assert added == {0: refused}

    story(play)


@pytest.mark.parametrize("version", range(6))
def test_a_topic_without_partitions_is_named_in_the_answer(tmp_path, version):
    async def play():
        async with housed(tmp_path) as house:
            client = TransactionalClient(house)
            await client.init()
            topics = [AddPartitionsToTxnTopic(name) for name in ("flights", "nowhere")]
            known = client.id, client.producer_id, client.epoch
            asked = AddPartitionsToTxnRequest([], *known, topics)
            if version >= 4:
                one = AddPartitionsToTxnTransaction(*known, False, topics)
                asked = AddPartitionsToTxnRequest([one])
            answer = await house.ask(asked, version)
            found = answer.results_by_topic_v3_and_below
            if version >= 4:
                found = answer.results_by_transaction[0].topic_results
            names = [(one.name, one.results_by_partition) for one in found]
            assert names == [("flights", []), ("nowhere", [])]

    story(play)


@pytest.mark.parametrize("version", range(6))
def test_who_may_not_add_hears_it_in_words_of_the_version(tmp_path, version):
    async def play():
        async with housed(tmp_path) as house:
            zombie, client = TransactionalClient(house), TransactionalClient(house)
            await zombie.init()
            await client.init()
            fenced = ErrorCode.PRODUCER_FENCED
            if version < 2:
                fenced = ErrorCode.INVALID_PRODUCER_EPOCH
            assert await zombie.add(0, version=version) == {0: fenced}
            zombie.producer_id += 1
            other = {0: ErrorCode.INVALID_PRODUCER_ID_MAPPING}
            assert await zombie.add(0, version=version) == other
            nobody = TransactionalClient(house, "nobody")
            assert await nobody.add(0, version=version) == other
            nameless = TransactionalClient(house, "")
            invalid = {0: ErrorCode.INVALID_REQUEST}
            assert await nameless.add(0, version=version) == invalid

    story(play)


@pytest.mark.parametrize("version", [4, 5])
def test_what_is_only_asked_about_is_not_added(tmp_path, version):
    missing = ErrorCode.TRANSACTION_ABORTABLE

    async def play():
        async with housed(tmp_path) as house:
            client = TransactionalClient(house)
            await client.init()
            asked = {"version": version, "verify_only": True}
            assert await client.add(0, **asked) == {0: missing}
            await client.add(0)
            assert await client.add(0, 1, **asked) == {0: NONE, 1: missing}
            client.epoch += 1
            assert await client.add(0, **asked) == {0: ErrorCode.PRODUCER_FENCED}

    story(play)


def test_each_of_many_transactions_has_its_own_answer(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            one, two = (TransactionalClient(house, name) for name in ("one", "two"))
            await one.init()
            await two.init()
            asked = AddPartitionsToTxnRequest(
                [
                    AddPartitionsToTxnTransaction(
                        client.id,
                        client.producer_id,
                        epoch,
                        topics=[
                            AddPartitionsToTxnTopic(FLIGHTS.name, [1, 1]),
                            AddPartitionsToTxnTopic(WEATHER.name, [0]),
                            AddPartitionsToTxnTopic(FLIGHTS.name, [0]),
                        ],
                    )
                    for client, epoch in ((one, 0), (two, 7))
                ]
            )
            answer = await house.ask(asked, 4)
            fenced = ErrorCode.PRODUCER_FENCED
            assert [
                (
                    result.transactional_id,
                    topic.name,
                    part.partition_index,
                    part.partition_error_code,
                )
                for result in answer.results_by_transaction
                for topic in result.topic_results
                for part in topic.results_by_partition
            ] == [
                (name, topic, index, code)
                for name, code in (("one", NONE), ("two", fenced))
                for topic, index in (("flights", 1), ("flights", 0), ("weather", 0))
            ]

    story(play)


def test_thousands_of_partitions_are_refused_in_turns(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            client = TransactionalClient(house)
            await client.init()
            codes = await client.add(*range(3000))
            assert len(codes) == 3000
            assert codes[0] is ErrorCode.OPERATION_NOT_ATTEMPTED

    story(play)
