"""CreateAcls: there is no authorizer, and each answer says so.

Behavior: SECURITY_DISABLED for each, as ``AclApis`` of a Kafka without authorizer.
Version notes: v1 pattern types (KIP-290); v2 flexible; v3 user principals of tokens.
"""

from broker.apis._acls import refused
from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.protocol.api_keys import ApiKey
from broker.protocol.messages.create_acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)


@serves(ApiKey.CREATE_ACLS, versions=(0, 3))
def create_acls(request: CreateAclsRequest, context: Context) -> CreateAclsResponse:
    result = refused(AclCreationResult())
    return CreateAclsResponse(results=[result] * len(request.creations))
