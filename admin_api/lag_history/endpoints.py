"""How far a group was behind over the last hours."""

from typing import Annotated

from fastapi import APIRouter, Query

from admin_api.dependencies import ClockDep, GroupId, LagRecorderDep, Text
from admin_api.fields import TOPIC
from admin_api.integers import DIGITS
from admin_api.lag_history.recorder import INTERVAL_S, SLOTS
from admin_api.lag_history.schemas import LagHistory, history

router = APIRouter(prefix="/v1/groups", tags=["Consumer Group"])
MINUTES_MAX = int(SLOTS * INTERVAL_S / 60)


@router.get("/{consumer_group_id}/lag/history", summary="Get lag over time")
async def get_lag_history(
    consumer_group_id: GroupId,
    recorder: LagRecorderDep,
    clock: ClockDep,
    topic_name: Annotated[
        Text | None,
        Query(
            description="By partitions of this topic; else by topic.",
            examples=[TOPIC],
        ),
    ] = None,
    minutes: Annotated[
        int,
        Query(ge=1, le=MINUTES_MAX, description="How far back.", examples=[30]),
        DIGITS,
    ] = 60,
) -> LagHistory:
    """The lag of a group once a minute, as the plane saw it since it started.

    It keeps six hours of the first 500 groups, by name, and of the first 4,000
    partitions that they have committed for; `left_out` counts the others.
    """
    since_ms = clock.now_ms() - minutes * 60_000
    interval_ms = int(INTERVAL_S * 1000)
    return history(
        recorder.ring,
        recorder.left_out,
        consumer_group_id,
        topic_name,
        since_ms,
        interval_ms,
    )
