"""ListPartitionReassignments: nothing moves."""

from pathlib import Path

from broker.apis.list_partition_reassignments import list_partition_reassignments
from broker.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)
from tests.support.rig import call, create, rig, run


def test_there_are_none(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            request = ListPartitionReassignmentsRequest()
            response = await call(list_partition_reassignments, request, broker)
            assert (response.error_code, response.error_message) == (0, None)
            assert response.topics == []

    run(scenario)
