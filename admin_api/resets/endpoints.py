"""Where a group reads on, changed."""

from fastapi import APIRouter

from admin_api.access.audit import OutcomeDep
from admin_api.access.guards import OPERATOR
from admin_api.dependencies import ClockDep, GroupId, KafkaDep
from admin_api.resets.reset import reset
from admin_api.resets.schemas import Reset, ResetOffsets

router = APIRouter(prefix="/v1/groups", tags=["Consumer Group"])


@router.post(
    "/{consumer_group_id}:reset-offsets",
    dependencies=[OPERATOR],
    summary="Reset a group's offsets",
)
async def reset_offsets(
    consumer_group_id: GroupId,
    body: ResetOffsets,
    kafka: KafkaDep,
    clock: ClockDep,
    outcome: OutcomeDep,
) -> Reset:
    """Commit other offsets for a group that nobody is in; a dry run unless said else.

    409 while the group is active. Without `topics`: of all that it has committed.
    """
    outcome.is_dry_run = body.dry_run
    return await reset(kafka, consumer_group_id, body, clock.now_ms())
