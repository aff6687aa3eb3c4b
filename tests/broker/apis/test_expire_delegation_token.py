"""ExpireDelegationToken is refused; see test__tokens.py too."""

from broker.apis._tokens import REFUSED
from broker.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
)
from tests.support.coordinating import housed, story


def test_no_token_is_ended(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            answer = await house.ask(ExpireDelegationTokenRequest(b"t", -1), 2)
            assert (answer.error_code, answer.expiry_timestamp_ms) == (REFUSED, -1)

    story(play)
