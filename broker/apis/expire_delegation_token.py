"""ExpireDelegationToken: not on a connection that did not authenticate.

Behavior: see ``_tokens``.
"""

from broker.apis._tokens import NEVER_MS, REFUSED
from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.protocol.api_keys import ApiKey
from broker.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)


@serves(ApiKey.EXPIRE_DELEGATION_TOKEN, versions=(0, 2))
def expire_delegation_token(
    request: ExpireDelegationTokenRequest, context: Context
) -> ExpireDelegationTokenResponse:
    return ExpireDelegationTokenResponse(REFUSED, NEVER_MS)
