"""Delegation tokens: nobody who asks may have one, in any version."""

import pytest

from broker.apis._tokens import NEVER_MS, REFUSED
from broker.dispatch.turns import ITEMS_A_TURN
from broker.protocol.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)
from broker.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from broker.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
)
from broker.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from tests.support.coordinating import housed, story

LONG = "x" * 32_767
MANY = 3 * ITEMS_A_TURN


@pytest.mark.parametrize(
    ("request_", "versions"),
    [
        (CreateDelegationTokenRequest(renewers=[]), 4),
        (CreateDelegationTokenRequest(renewers=[CreatableRenewers()] * MANY), 4),
        (CreateDelegationTokenRequest(renewers=[CreatableRenewers(LONG, LONG)]), 4),
        (RenewDelegationTokenRequest(b"x" * (1 << 20), 1), 3),
        (ExpireDelegationTokenRequest(b"", -1), 3),
        (DescribeDelegationTokenRequest(None), 4),
        (DescribeDelegationTokenRequest([DescribeDelegationTokenOwner()] * MANY), 4),
    ],
    ids=["create", "many", "long", "renew", "expire", "all", "owners"],
)
def test_who_did_not_authenticate_gets_no_token(tmp_path, request_, versions):
    async def play():
        async with housed(tmp_path) as house:
            for version in range(versions):
                answer = await house.ask(request_, version)
                assert answer.error_code == REFUSED
                assert getattr(answer, "expiry_timestamp_ms", NEVER_MS) == NEVER_MS
                assert not getattr(answer, "tokens", None)

    story(play)
