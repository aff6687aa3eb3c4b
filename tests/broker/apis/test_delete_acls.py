"""DeleteAcls: without an authorizer there is nothing to delete."""

from pathlib import Path

from broker.apis.delete_acls import delete_acls
from broker.protocol.errors import ErrorCode
from broker.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from tests.support.rig import call, rig, run


def test_security_is_disabled_for_each(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            request = DeleteAclsRequest(filters=[DeleteAclsFilter()] * 2)
            response = await call(delete_acls, request, broker)
            found = [(r.error_code, r.matching_acls) for r in response.filter_results]
            assert found == [(ErrorCode.SECURITY_DISABLED, [])] * 2
            assert response.filter_results[0].error_message == (
                "No Authorizer is configured."
            )

    run(scenario)
