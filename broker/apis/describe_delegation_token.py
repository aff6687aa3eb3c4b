"""DescribeDelegationToken: not on a connection that did not authenticate.

Behavior: see ``_tokens``.
"""

from broker.apis._tokens import REFUSED
from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.protocol.api_keys import ApiKey
from broker.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)


@serves(ApiKey.DESCRIBE_DELEGATION_TOKEN, versions=(0, 3))
def describe_delegation_token(
    request: DescribeDelegationTokenRequest, context: Context
) -> DescribeDelegationTokenResponse:
    return DescribeDelegationTokenResponse(REFUSED)
