"""Produce within transactions, over the wire."""

import asyncio

import pytest

from broker.protocol.errors import ErrorCode
from broker.records.layout import CONTROL_BIT, TRANSACTIONAL_BIT
from tests.support.coordinating import housed, story
from tests.support.transactional_client import TIMEOUT_MS, TransactionalClient

NONE = ErrorCode.NONE
VERSIONS = (3, 8, 9, 10, 11)


def in_words(version: int) -> ErrorCode:
    """Of a batch whose partition is not part of the transaction."""
    if version < 11:
        return ErrorCode.INVALID_TXN_STATE
    return ErrorCode.TRANSACTION_ABORTABLE


@pytest.mark.parametrize("version", VERSIONS)
def test_a_batch_is_taken_only_where_its_transaction_is_open(tmp_path, version):
    async def play():
        async with housed(tmp_path) as house:
            client = TransactionalClient(house)
            await client.init()
            assert await client.written(0, version=version) == [in_words(version)]
            await client.add(0)
            missing = [NONE, in_words(version)]
            assert await client.written(0, 1, version=version) == missing
            await client.end()
            after = await client.produce(0, sequence=1, version=version)
            assert after[0].error_code == in_words(version)
            assert (after[0].base_offset, after[0].log_start_offset) == (-1, -1)
            assert client.log(0).durable == 2

    story(play)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("is_added", [True, False])
def test_behind_a_first_batch_that_was_refused_the_next_is_out_of_order(
    tmp_path, is_added, version
):
    """As Apache Kafka 4.3.1 answers; a new producer may begin anywhere else."""

    async def play():
        async with housed(tmp_path) as house:
            client = TransactionalClient(house)
            await client.init()
            await client.add(1)
            if is_added:
                await client.add(0)
                refused = {"attributes": TRANSACTIONAL_BIT | CONTROL_BIT}
                assert await client.written(0, version=version, **refused) != [NONE]
            else:
                assert await client.written(0, version=version) == [in_words(version)]
                await client.add(0)

            async def wrote(sequence: int, index: int = 0) -> ErrorCode:
                given = {"version": version, "sequence": sequence}
                return (await client.written(index, **given))[0]

            assert await wrote(1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            assert [await wrote(number) for number in (0, 1, 2)] == [NONE] * 3
            assert await wrote(5, index=1) is NONE

    story(play)


@pytest.mark.parametrize("version", VERSIONS)
def test_who_has_only_ended_here_begins_with_its_first_sequence(tmp_path, version):
    """As Apache Kafka 4.3.1 answers."""

    async def play():
        async with housed(tmp_path) as house:
            client = TransactionalClient(house)
            await client.init()
            await client.add(0)
            await client.end()
            await client.add(0)
            out_of_order = [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
            assert await client.written(0, sequence=1, version=version) == out_of_order
            assert await client.written(0, version=version) == [NONE]

    story(play)


def test_what_is_missing_is_told_in_kafkas_words(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            client = TransactionalClient(house)
            await client.init()
            (old,) = await client.produce(0, version=10)
            assert old.error_message == "Partition was not added to the transaction"
            (new,) = await client.produce(0, version=11)
            assert new.error_message is None

    story(play)


@pytest.mark.parametrize("version", [*VERSIONS, 12, 13])
def test_a_zombie_writes_nothing(tmp_path, version):
    async def play():
        async with housed(tmp_path) as house:
            zombie, client = TransactionalClient(house), TransactionalClient(house)
            await zombie.init()
            await client.init()
            await client.add(0)
            fenced = [ErrorCode.INVALID_PRODUCER_EPOCH]
            assert await zombie.written(0, version=version) == fenced
            zombie.producer_id += 1
            other = [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
            assert await zombie.written(0, version=version) == other
            nobody = TransactionalClient(house, "nobody")
            nobody.producer_id, nobody.epoch = client.producer_id, client.epoch
            assert await nobody.written(0, version=version) == other
            assert client.log(0).durable == 0

    story(play)


@pytest.mark.parametrize("version", [*VERSIONS, 12, 13])
def test_a_batch_of_a_transaction_that_nobody_names_is_refused(tmp_path, version):
    async def play():
        async with housed(tmp_path) as house:
            client = TransactionalClient(house)
            await client.init()
            await client.add(0)
            codes = await client.written(0, version=version, transactional_id=None)
            assert codes == [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED]

    story(play)


def test_a_plain_batch_beside_an_open_transaction_is_none_of_it(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            client, plain = TransactionalClient(house), TransactionalClient(house)
            await client.init()
            await client.add(0)
            await client.written(0)
            plain.producer_id, plain.epoch = 1 << 40, 0
            assert await plain.written(0, attributes=0) == [NONE]
            inside = [ErrorCode.INVALID_TXN_STATE]
            assert await client.written(0, sequence=1, attributes=0) == inside

    story(play)


@pytest.mark.parametrize("version", [12, 13])
def test_from_version_12_a_batch_makes_its_partition_part_of_it(tmp_path, version):
    async def play():
        async with housed(tmp_path) as house:
            client = TransactionalClient(house)
            await client.init()
            assert await client.written(0, 2, version=version) == [NONE, NONE]
            assert await client.written(1, 2, sequence=1, version=version) == [
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                NONE,
            ], "a producer that is not known begins at 0"
            found = house.broker.transactions.describe("x")
            assert len(found.partitions) == 3
            await client.end(True, 5)
            assert [client.log(index).durable for index in range(3)] == [2, 1, 3]
            assert await client.written(0, version=version) == [NONE]

    story(play)


def test_nothing_is_appended_before_it_is_durable_that_it_is_part_of_it(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            client = TransactionalClient(house)
            await client.init()
            house.catalog.close()
            again = [ErrorCode.NOT_ENOUGH_REPLICAS]
            assert await client.written(0, version=12) == again
            assert client.log(0).next == 0

    story(play)


@pytest.mark.parametrize(
    ("version", "code"),
    [
        (9, ErrorCode.NOT_ENOUGH_REPLICAS),
        (11, ErrorCode.NOT_ENOUGH_REPLICAS),
        (12, ErrorCode.CONCURRENT_TRANSACTIONS),
    ],
)
def test_while_a_transaction_is_ended_its_producer_is_told_to_come_again(
    tmp_path, version, code
):
    async def play():
        async with housed(tmp_path) as house:
            client = TransactionalClient(house)
            await client.init()
            await client.add(0)
            ending = asyncio.ensure_future(client.end())
            await asyncio.sleep(0)
            assert await client.written(0, version=version) == [code]
            assert await ending is NONE

    story(play)


def test_an_open_transaction_is_aborted_when_its_time_is_over(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            client = TransactionalClient(house)
            await client.init()
            await client.add(0)
            await client.written(0)
            house.timers.advance(TIMEOUT_MS)
            while client.log(0).stable < 2:
                await asyncio.sleep(0.001)
            assert client.log(0).aborted(0, 2) == [(client.producer_id, 0)]
            fenced = [ErrorCode.INVALID_PRODUCER_EPOCH]
            assert await client.written(0, sequence=1) == fenced
            assert await client.end(version=1) is ErrorCode.INVALID_PRODUCER_EPOCH
            assert await client.init() is NONE

    story(play)
