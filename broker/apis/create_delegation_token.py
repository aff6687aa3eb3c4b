"""CreateDelegationToken: not on a connection that did not authenticate.

Behavior: see ``_tokens``.
Version notes: v3 a token for somebody else, and who asked for it (KIP-373).
"""

from broker.apis._tokens import NEVER_MS, PRINCIPAL, REFUSED
from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.protocol.api_keys import ApiKey
from broker.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)


@serves(ApiKey.CREATE_DELEGATION_TOKEN, versions=(0, 3))
def create_delegation_token(
    request: CreateDelegationTokenRequest, context: Context
) -> CreateDelegationTokenResponse:
    owner = PRINCIPAL
    if request.owner_principal_name and context.version >= 3:
        owner = (request.owner_principal_type or "", request.owner_principal_name)
    return CreateDelegationTokenResponse(
        REFUSED,
        *owner,
        *PRINCIPAL,
        issue_timestamp_ms=NEVER_MS,
        expiry_timestamp_ms=NEVER_MS,
        max_timestamp_ms=NEVER_MS,
    )
