"""Have a table hold all that is committed, now."""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Response

from admin_api.access.guards import OPERATOR
from admin_api.compaction.operations import Operations
from admin_api.compaction.schemas import Operation, State
from admin_api.dependencies import (
    ID_MAX,
    BaseDep,
    ClockDep,
    LakeDep,
    StatusDep,
    TopicNameDep,
)
from admin_api.integers import DIGITS

router = APIRouter(prefix="/v1", tags=["Tables"])
TIMEOUT_S = 10.0
TIMEOUT_S_MAX = 60


def _operations(
    lake: LakeDep, status: StatusDep, clock: ClockDep, base: BaseDep
) -> Operations:
    return Operations(lake, status, clock, base)


OperationsDep = Annotated[Operations, Depends(_operations)]
_Seconds = Annotated[float, Query(ge=0, le=TIMEOUT_S_MAX)]


def _patience(
    timeout: Annotated[
        _Seconds, Query(description="How long to wait, in seconds.", examples=[5])
    ] = TIMEOUT_S,
    timeout_s: Annotated[
        _Seconds | None,
        Query(description="As `timeout`.", deprecated=True, examples=[5]),
    ] = None,
) -> float:
    return timeout if timeout_s is None else timeout_s


PatienceDep = Annotated[float, Depends(_patience)]


@router.post(
    "/tables/{topic_name}:compact",
    dependencies=[OPERATOR],
    summary="Compact a table now",
    responses={202: {"model": Operation, "description": "It is not done yet."}},
)
async def compact_table(
    name: TopicNameDep,
    operations: OperationsDep,
    response: Response,
    patience_s: PatienceDep,
) -> Operation:
    """Have all that is committed now in the topic's table.

    200 once it is there. 202 with an operation to ask for again when it is not in time,
    when it is stuck, or when no compactor runs: then it is not waited for.
    """
    asked = await asyncio.to_thread(operations.compact, name)
    found = await operations.completed(asked, patience_s)
    if found.state != State.DONE:
        response.status_code = 202
        response.headers["Location"] = found.metadata.self
    return found


@router.get("/operations/{operation_id}", summary="Get an operation")
async def get_operation(
    operation_id: Annotated[
        int,
        Path(
            ge=1,
            le=ID_MAX,
            description="The `operation_id` of the answer to a compaction.",
            examples=[1],
        ),
        DIGITS,
    ],
    operations: OperationsDep,
) -> Operation:
    """What was asked of the compactor, here or by `lakelog compact`."""
    return await asyncio.to_thread(operations.find, operation_id)
