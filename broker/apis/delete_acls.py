"""DeleteAcls: there is no authorizer, and each answer says so.

Behavior: SECURITY_DISABLED for each, as ``AclApis`` of a Kafka without authorizer.
Version notes: v1 pattern types (KIP-290); v2 flexible; v3 user principals of tokens.
"""

from broker.apis._acls import refused
from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.protocol.api_keys import ApiKey
from broker.protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)


@serves(ApiKey.DELETE_ACLS, versions=(0, 3))
def delete_acls(request: DeleteAclsRequest, context: Context) -> DeleteAclsResponse:
    result = refused(DeleteAclsFilterResult())
    return DeleteAclsResponse(filter_results=[result] * len(request.filters))
