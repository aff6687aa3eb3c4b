"""CreateDelegationToken is refused; see test__tokens.py too."""

from broker.apis._tokens import REFUSED
from broker.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
)
from tests.support.coordinating import housed, story


def test_it_says_for_whom_and_who_asked(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            request = CreateDelegationTokenRequest("User", "b", [], -1)
            answer = await house.ask(request, 3)
            assert answer.error_code == REFUSED
            assert (answer.principal_type, answer.principal_name) == ("User", "b")
            assert answer.token_requester_principal_name == "ANONYMOUS"
            assert (await house.ask(request, 2)).principal_name == "ANONYMOUS"

    story(play)
