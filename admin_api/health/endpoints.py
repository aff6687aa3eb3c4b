"""Is it alive; can clients come, and if not, why.

Liveness asks nothing of the disk, of Spark or of the broker. Readiness is about Kafka
clients: a compactor that is away, or a table that takes no commit, is a warning, for
acknowledged records wait safely in their segments. Anybody may ask; but the sentences
have names of topics and paths in them, and are for whoever may look at anything.
"""

import asyncio
from typing import Final

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from admin_api.access.callers import CALLER, Asking
from admin_api.dependencies import KafkaDep, LakeDep, StatusDep
from admin_api.health.reasons import problems_of, unreachable, warnings_of

router = APIRouter(tags=["health"])
FOR_STRANGERS: Final = "there are reasons, told to whoever sends a token"


class Readiness(BaseModel):
    """Whether Kafka clients can come."""

    ready: bool = Field(description="Whether they can.")
    reasons: list[str] = Field(
        description="Why not.",
        examples=[["the broker at 127.0.0.1:9092 does not answer"]],
    )
    warnings: list[str] = Field(
        description="What is not well and no client notices.",
        examples=[["no compactor is running: records wait in the log"]],
    )


@router.get("/livez")
async def livez() -> dict[str, str]:
    """This process answers, whatever the broker does."""
    return {"status": "alive"}


@router.get("/readyz")
@router.get("/status/ready", include_in_schema=False)
async def readyz(
    request: Request,
    response: Response,
    kafka: KafkaDep,
    status: StatusDep,
    lake: LakeDep,
) -> Readiness:
    """Whether Kafka clients can come; if not, why not, told to whoever may look."""
    broker = await asyncio.to_thread(status.broker)
    compactor = await asyncio.to_thread(status.compactor)
    reasons = [*await unreachable(kafka, status, lake), *problems_of(broker)]
    response.status_code = 503 if reasons else 200
    warnings = warnings_of(broker, compactor)
    asking: Asking = request.scope[CALLER]
    if (await asking.caller()).refusal is not None:
        reasons, warnings = [FOR_STRANGERS] if reasons else [], []
    return Readiness(ready=not reasons, reasons=reasons, warnings=warnings)
