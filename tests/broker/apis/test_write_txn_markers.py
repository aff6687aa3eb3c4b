"""WriteTxnMarkers, over the wire; each answer was asked of Apache Kafka 4.3.1."""

import asyncio
import errno

import pytest

from broker.apis.write_txn_markers import MARKERS_A_TURN, write_txn_markers
from broker.protocol.errors import ErrorCode
from broker.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.support.coordinating import House, housed, story
from tests.support.files import ForgetfulFiles
from tests.support.rig import call, create, rig, run
from tests.support.transacting import marker as own_marker
from tests.support.transacting import record

VERSIONS = range(3)
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
FENCED = ErrorCode.INVALID_PRODUCER_EPOCH


def marker(*topics: tuple[str, list[int]], **fields) -> WritableTxnMarker:
    """An abort by an operator who knows of no coordinator."""
    named = {"producer_id": 70, "coordinator_epoch": -1}
    asked = [WritableTxnMarkerTopic(name, indexes) for name, indexes in topics]
    return WritableTxnMarker(topics=asked, **named | fields)


async def written(house: House, version: int, *markers: WritableTxnMarker):
    answer = await house.ask(WriteTxnMarkersRequest(list(markers)), version)
    return [
        (one.producer_id, topic.name, part.partition_index, part.error_code)
        for one in answer.markers
        for topic in one.topics
        for part in topic.partitions
    ]


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_transaction_that_hangs_is_ended(tmp_path, version, commit):
    async def play():
        async with housed(tmp_path) as house:
            partition = house.broker.partitions.named("flights", 0)
            await record(partition, 70)
            await record(partition, 71)
            asked = marker(("flights", [0]), transaction_result=commit)
            assert await written(house, version, asked) == [(70, "flights", 0, 0)]
            log = partition.log
            assert (log.durable, log.stable) == (3, 1)
            assert list(log.transactions.open) == [71]
            assert log.aborted(0, 1) == ([] if commit else [(70, 0)])
            again = await written(house, version, asked)  # it harms nobody
            assert again == [(70, "flights", 0, 0)]
            assert log.stable == 1

    story(play)


def test_the_marker_is_durable_when_it_is_answered(tmp_path):
    async def scenario():
        async with rig(tmp_path) as broker:
            partition = await create(broker, "flights")
            await record(partition, 70)
            request = WriteTxnMarkersRequest([marker(("flights", [0]))])
            answer = await call(write_txn_markers, request, broker)
            assert answer.markers[0].topics[0].partitions[0].error_code == 0
        async with rig(tmp_path) as broker:
            log = broker.partitions.named("flights", 0).log
            assert (log.durable, log.stable) == (2, 2)
            assert log.aborted(0, 2) == [(70, 0)]

    run(scenario)


@pytest.mark.parametrize("version", VERSIONS)
def test_each_partition_of_each_marker_is_answered_once(tmp_path, version):
    async def play():
        async with housed(tmp_path) as house:
            asked = marker(("flights", [0, 3, 0, -1]), ("nope", [0]), ("flights", [0]))
            other = marker(("flights", [0]), producer_id=71)
            assert await written(house, version, asked, other) == [
                (70, "flights", 0, 0),
                (70, "flights", 3, UNKNOWN),
                (70, "flights", -1, UNKNOWN),
                (70, "nope", 0, UNKNOWN),
                (71, "flights", 0, 0),
            ]
            assert house.broker.partitions.named("flights", 0).log.durable == 2
            assert await written(house, version) == []

    story(play)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_producer_is_answered_once_and_only_where_it_was_named(tmp_path, version):
    """As Kafka 4.3.1: several markers of one are one answer, empty ones are none."""

    async def play():
        async with housed(tmp_path) as house:
            asked = [
                marker(),
                marker(("flights", [])),
                marker(("flights", [0]), ("weather", [0])),
                marker(("flights", [1, 0])),
                marker(("nowhere", []), producer_id=71),
                marker(("flights", [2]), producer_id=72),
            ]
            answer = await house.ask(WriteTxnMarkersRequest(asked), version)
            assert [
                (
                    one.producer_id,
                    [
                        (
                            topic.name,
                            [part.partition_index for part in topic.partitions],
                        )
                        for topic in one.topics
                    ],
                )
                for one in answer.markers
            ] == [
                (70, [("flights", [0, 1, 0]), ("weather", [0])]),
                (72, [("flights", [2])]),
            ]

    story(play)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_epoch_that_is_over_ends_nothing(tmp_path, version):
    async def play():
        async with housed(tmp_path) as house:
            log = house.broker.partitions.named("flights", 0).log
            newer = marker(("flights", [0]), producer_epoch=5)
            assert await written(house, version, newer) == [(70, "flights", 0, 0)]
            old = marker(("flights", [0]), producer_epoch=4)
            assert await written(house, version, old) == [(70, "flights", 0, FENCED)]
            assert log.durable == 1

    story(play)


def test_in_version_2_of_transactions_the_epoch_must_be_higher(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            partition = house.broker.partitions.named("flights", 0)
            await record(partition, 70)
            same = marker(("flights", [0]), transaction_version=2)
            assert await written(house, 2, same) == [(70, "flights", 0, FENCED)]
            assert partition.log.stable == 0
            higher = marker(("flights", [0]), transaction_version=2, producer_epoch=1)
            assert await written(house, 2, higher) == [(70, "flights", 0, 0)]
            assert partition.log.stable == 2
            unnamed = marker(("flights", [0]), transaction_version=2)
            assert await written(house, 1, unnamed) == [(70, "flights", 0, FENCED)]

    story(play)


@pytest.mark.parametrize(
    "wrong",
    [{"producer_id": -1}, {"producer_epoch": -1}, {"transaction_version": -1}],
)
def test_numbers_that_nobody_has_are_refused(tmp_path, wrong):
    async def play():
        async with housed(tmp_path) as house:
            refused = ErrorCode.UNKNOWN_SERVER_ERROR
            [(_, _, _, code)] = await written(
                house, 2, marker(("flights", [0]), **wrong)
            )
            assert code == refused
            assert house.broker.partitions.named("flights", 0).log.durable == 0

    story(play)


def test_our_own_coordinator_goes_on_after_any_other(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            partition = house.broker.partitions.named("flights", 0)
            foreign = marker(("flights", [0]), coordinator_epoch=2**31 - 1)
            assert await written(house, 2, foreign) == [(70, "flights", 0, 0)]
            await record(partition, 70)
            await own_marker(partition, 70, commit=True)
            assert partition.log.stable == 3

    story(play)


def test_topics_of_kafka_itself_take_no_marker(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            asked = marker(("__consumer_offsets", [0]))
            [(_, _, _, code)] = await written(house, 2, asked)
            assert code == ErrorCode.INVALID_TOPIC_EXCEPTION

    story(play)


def test_so_many_are_under_way_and_no_more(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            partition = house.broker.partitions.named("flights", 0)
            many = 3 * MARKERS_A_TURN
            markers = [
                marker(("flights", [0]), producer_id=producer)
                for producer in range(many)
            ]
            writing = await house.asking(WriteTxnMarkersRequest(markers), 2)
            most = 0
            while not writing.done():
                most = max(most, partition.log.next - partition.log.durable)
                await asyncio.sleep(0)
            assert partition.log.durable == many
            assert most <= MARKERS_A_TURN

    story(play)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_disk_that_fails_is_told_in_words_of_the_version(tmp_path, version):
    async def scenario():
        files = ForgetfulFiles()
        async with rig(tmp_path, files=files) as broker:
            partition = await create(broker, "flights")
            await record(partition, 70)
            files.fail("fdatasync", OSError(errno.EIO, "broken"))
            request = WriteTxnMarkersRequest([marker(("flights", [0]))])
            answer = await call(write_txn_markers, request, broker, version)
            old = ErrorCode.NOT_LEADER_OR_FOLLOWER
            code = old if version == 0 else ErrorCode.KAFKA_STORAGE_ERROR
            assert answer.markers[0].topics[0].partitions[0].error_code == code
            assert partition.log.stable == 0

    run(scenario)
