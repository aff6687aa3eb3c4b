"""DescribeTransactions, over the wire."""

from broker.protocol.errors import ErrorCode
from broker.protocol.messages.describe_transactions import DescribeTransactionsRequest
from tests.support.coordinating import FLIGHTS, WEATHER, House, housed, story
from tests.support.transactional import TIMEOUT_MS, Transactional


async def described(house: House, *names: str):
    answer = await house.ask(DescribeTransactionsRequest(list(names)), 0)
    return answer.transaction_states


def test_what_is_open_is_told_with_its_partitions_and_groups(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            producer = await Transactional.begun(house.broker)
            began_ms = house.clock.now_ms()
            parts = (WEATHER.key(0), FLIGHTS.key(2), FLIGHTS.key(0), "g")
            await producer.add(*parts)
            house.clock.advance(1_000)
            (found,) = await described(house, "x")
            assert (found.error_code, found.transactional_id) == (0, "x")
            assert found.transaction_state == "Ongoing"
            assert found.transaction_timeout_ms == TIMEOUT_MS
            assert found.transaction_start_time_ms == began_ms
            assert found.producer_id == producer.producer_id
            assert found.producer_epoch == producer.producer_epoch
            assert [(one.topic, one.partitions) for one in found.topics] == [
                ("__consumer_offsets", [3]),  # as Kafka 4.3.1 keeps "g"
                ("flights", [0, 2]),
                ("weather", [0]),
            ]

    story(play)


def test_what_is_over_has_no_partitions(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            producer = await Transactional.begun(house.broker)
            (found,) = await described(house, "x")
            assert found.transaction_state == "Empty"
            assert found.transaction_start_time_ms == -1
            await producer.add(FLIGHTS.key(0))
            began_ms = house.clock.now_ms()
            await producer.end(commit=False)
            (found,) = await described(house, "x")
            assert (found.transaction_state, found.topics) == ("CompleteAbort", [])
            assert found.transaction_start_time_ms == began_ms

    story(play)


def test_each_id_is_described_once_and_fails_alone(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            await Transactional.begun(house.broker)
            found = await described(house, "x", "", "nope", "x")
            assert [(one.transactional_id, one.error_code) for one in found] == [
                ("x", ErrorCode.NONE),
                ("", ErrorCode.INVALID_REQUEST),
                ("nope", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND),
            ]

    story(play)


def test_a_topic_that_is_gone_is_left_out(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            producer = await Transactional.begun(house.broker)
            await producer.add(WEATHER.key(0), FLIGHTS.key(0))
            await house.broker.topics.delete(house.broker.topics.named("weather"))
            (found,) = await described(house, "x")
            assert [one.topic for one in found.topics] == ["flights"]

    story(play)


def test_a_coordinator_that_has_closed_says_so(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            await Transactional.begun(house.broker)
            await house.broker.transactions.close()
            (found,) = await described(house, "x")
            assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE

    story(play)
