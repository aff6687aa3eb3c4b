"""UnregisterBroker: nobody can be forgotten."""

from broker.protocol.errors import ErrorCode
from broker.protocol.messages.unregister_broker import UnregisterBrokerRequest
from tests.support.coordinating import housed, story


def test_who_is_not_here_is_unknown_and_who_answers_stays(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            here = house.broker.node_id
            for number, code in {
                here: ErrorCode.INVALID_REQUEST,
                here + 1: ErrorCode.BROKER_ID_NOT_REGISTERED,
                -1: ErrorCode.BROKER_ID_NOT_REGISTERED,
                2**31 - 1: ErrorCode.BROKER_ID_NOT_REGISTERED,
            }.items():
                answer = await house.ask(UnregisterBrokerRequest(number), 0)
                assert answer.error_code == code
                assert str(number) in answer.error_message

    story(play)
