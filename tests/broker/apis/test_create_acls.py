"""CreateAcls: without an authorizer there is nothing to create."""

from pathlib import Path

from broker.apis.create_acls import create_acls
from broker.protocol.errors import ErrorCode
from broker.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from tests.support.rig import call, rig, run


def test_security_is_disabled_for_each(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            request = CreateAclsRequest(creations=[AclCreation(), AclCreation()])
            response = await call(create_acls, request, broker)
            codes = [one.error_code for one in response.results]
            assert codes == [ErrorCode.SECURITY_DISABLED] * 2
            assert response.results[0].error_message == ("No Authorizer is configured.")

    run(scenario)
