"""DescribeAcls: without an authorizer there is nothing to describe."""

from pathlib import Path

from broker.apis.describe_acls import describe_acls
from broker.protocol.errors import ErrorCode
from broker.protocol.messages.describe_acls import DescribeAclsRequest
from tests.support.rig import call, rig, run


def test_security_is_disabled(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            response = await call(describe_acls, DescribeAclsRequest(), broker)
            assert response.error_code == ErrorCode.SECURITY_DISABLED
            assert response.resources == []
            assert response.error_message == (
                "No Authorizer is configured on the broker"
            )

    run(scenario)
