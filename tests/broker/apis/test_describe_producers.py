"""DescribeProducers, over the wire."""

from broker.dispatch.turns import ITEMS_A_TURN
from broker.protocol.errors import ErrorCode
from broker.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    TopicRequest,
)
from broker.records.batch import read_header
from tests.support.coordinating import House, housed, story
from tests.support.rig import batch_of
from tests.support.transacting import NOW_MS, marker, record

MANY = 9 * ITEMS_A_TURN


async def described(house: House, *topics: TopicRequest):
    answer = await house.ask(DescribeProducersRequest(list(topics)), 0)
    return [(topic.name, one) for topic in answer.topics for one in topic.partitions]


async def producers(house: House, index: int = 0) -> list[tuple[int, ...]]:
    [(_, found)] = await described(house, TopicRequest("flights", [index]))
    assert (found.error_code, found.partition_index) == (0, index)
    return [
        (
            one.producer_id,
            one.producer_epoch,
            one.last_sequence,
            one.last_timestamp,
            one.current_txn_start_offset,
        )
        for one in found.active_producers
    ]


def test_producers_are_told_with_where_their_transaction_begins(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            partition = house.broker.partitions.named("flights", 0)
            assert not await producers(house)
            await record(partition, 70)
            await record(partition, 71)
            await record(partition, 71, 1)
            heard = [(70, 0, 0, NOW_MS, 0), (71, 0, 1, NOW_MS, 1)]
            assert await producers(house) == heard
            await marker(partition, 70, commit=True)
            assert (await producers(house))[0] == (70, 0, 0, NOW_MS, -1)
            await marker(partition, 72, commit=False)  # nobody has seen it write
            assert (await producers(house))[2] == (72, 0, -1, NOW_MS, -1)
            assert not await producers(house, 1)

    story(play)


def test_the_time_is_the_brokers_and_the_coordinator_never_another(tmp_path):
    """Kafka shows the record's time, and of the last marker its coordinator's epoch."""

    async def play():
        async with housed(tmp_path) as house:
            partition = house.broker.partitions.named("flights", 0)
            await record(partition, 70)
            asked = DescribeProducersRequest([TopicRequest("flights", [0])])
            for end in (False, True):
                if end:
                    await marker(partition, 70, commit=True)
                answer = await house.ask(asked, 0)
                [found] = answer.topics[0].partitions[0].active_producers
                assert (found.last_timestamp, found.coordinator_epoch) == (NOW_MS, -1)

    story(play)


def test_what_is_not_durable_yet_is_not_told(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            partition = house.broker.partitions.named("flights", 0)
            await record(partition, 70)
            batch = batch_of(b"v", producer=(70, 0, 1))
            log = partition.log
            await marker(partition, 70, commit=True)
            log.admit(read_header(batch), NOW_MS)  # and the disk does not answer
            assert [one[2] for one in await producers(house)] == [0]

    story(play)


def test_what_is_not_here_fails_alone_and_is_told_once(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            found = await described(
                house,
                TopicRequest("flights", [0, 3, 0, -1]),
                TopicRequest("nope", [0]),
                TopicRequest("no way", [0]),
                TopicRequest("", [0]),
                TopicRequest("flights", [0, 1]),
                TopicRequest("__consumer_offsets", [49]),
            )
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            invalid = ErrorCode.INVALID_TOPIC_EXCEPTION
            told = [(name, p.partition_index, p.error_code) for name, p in found]
            assert told == [
                ("flights", 0, 0),
                ("flights", 3, unknown),
                ("flights", -1, unknown),
                ("flights", 1, 0),
                ("nope", 0, unknown),
                ("no way", 0, invalid),
                ("", 0, invalid),
                ("__consumer_offsets", 49, 0),
            ]
            said = [name for name, part in found if part.error_message]
            assert said == ["nope", "no way", ""]  # no more of a topic that is here

    story(play)


def test_many_producers_are_described_in_turns_while_some_are_forgotten(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            log = house.broker.partitions.named("flights", 0).log
            for producer in range(MANY):
                log.producers.mark(producer, 0, NOW_MS)
            asked = DescribeProducersRequest([TopicRequest("flights", [0])])
            describing = await house.asking(asked, 0)
            assert not describing.done()
            log.producers.forget(MANY - 1)
            answer = await describing
            found = answer.topics[0].partitions[0].active_producers
            assert len(found) == MANY - 1

    story(play)
