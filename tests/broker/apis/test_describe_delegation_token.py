"""DescribeDelegationToken is refused; see test__tokens.py too."""

from broker.apis._tokens import REFUSED
from broker.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
)
from tests.support.coordinating import housed, story


def test_no_token_is_told(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            answer = await house.ask(DescribeDelegationTokenRequest(None), 3)
            assert (answer.error_code, answer.tokens) == (REFUSED, [])

    story(play)
