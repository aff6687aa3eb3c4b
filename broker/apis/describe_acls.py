"""DescribeAcls: there is no authorizer, and the answer says so.

Behavior: SECURITY_DISABLED, as ``AclApis`` of a Kafka without authorizer.
Version notes: v1 pattern types (KIP-290); v2 flexible; v3 user principals of tokens.
"""

from broker.apis._acls import refused
from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.protocol.api_keys import ApiKey
from broker.protocol.messages.describe_acls import (
    DescribeAclsRequest,
    DescribeAclsResponse,
)


@serves(ApiKey.DESCRIBE_ACLS, versions=(0, 3))
def describe_acls(
    request: DescribeAclsRequest, context: Context
) -> DescribeAclsResponse:
    message = "No Authorizer is configured on the broker"
    return refused(DescribeAclsResponse(), message)
