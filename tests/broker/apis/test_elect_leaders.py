"""ElectLeaders: no election is needed; the table of all its answers is in clients/."""

from broker.dispatch.turns import ITEMS_A_TURN
from broker.protocol.errors import ErrorCode
from broker.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from broker.topics.names import NAME_LENGTH_MAX
from tests.support.coordinating import housed, story

NOT_NEEDED = ErrorCode.ELECTION_NOT_NEEDED
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_who_is_asked_for_leads_already(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            asked = [TopicPartitions("flights", [0, 9]), TopicPartitions("none", [0])]
            answer = await house.ask(ElectLeadersRequest(1, asked), 2)
            found = [
                (topic.topic, one.partition_id, one.error_code)
                for topic in answer.replica_election_results
                for one in topic.partition_result
            ]
            assert found == [
                ("flights", 0, NOT_NEEDED),
                ("flights", 9, UNKNOWN),
                ("none", 0, UNKNOWN),
            ]
            everything = await house.ask(ElectLeadersRequest(0, None), 2)
            results = everything.replica_election_results
            assert "flights" in {topic.topic for topic in results}
            assert not any(topic.partition_result for topic in results)
            odd = await house.ask(ElectLeadersRequest(7, None), 2)
            assert (odd.error_code, odd.replica_election_results) == (42, [])

    story(play)


def test_a_name_of_32_kib_is_not_repeated_for_each_partition(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            name, many = "x" * 32_767, list(range(3 * ITEMS_A_TURN))
            asked = ElectLeadersRequest(0, [TopicPartitions(name, many)])
            (topic,) = (await house.ask(asked, 2)).replica_election_results
            assert topic.topic == name
            assert {one.error_code for one in topic.partition_result} == {UNKNOWN}
            why = {one.error_message for one in topic.partition_result}
            assert why == {f"No such topic as {'x' * NAME_LENGTH_MAX}..."}

    story(play)
