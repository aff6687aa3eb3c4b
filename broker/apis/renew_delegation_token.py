"""RenewDelegationToken: not on a connection that did not authenticate.

Behavior: see ``_tokens``.
"""

from broker.apis._tokens import NEVER_MS, REFUSED
from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.protocol.api_keys import ApiKey
from broker.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)


@serves(ApiKey.RENEW_DELEGATION_TOKEN, versions=(0, 2))
def renew_delegation_token(
    request: RenewDelegationTokenRequest, context: Context
) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(REFUSED, NEVER_MS)
