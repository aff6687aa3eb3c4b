"""Is it alive; can clients come, and if not, why.

Liveness asks nothing of the disk, of Spark or of the broker. Readiness is about Kafka
clients: a compactor that is away, or a table that takes no commit, is a warning, for
acknowledged records wait safely in their segments.
"""

from fastapi import APIRouter, Response
from pydantic import BaseModel

from admin_api.dependencies import KafkaDep, StatusDep
from admin_api.health.reasons import problems_of, unreachable, warnings_of

router = APIRouter(tags=["health"])


class Readiness(BaseModel):
    ready: bool
    reasons: list[str]
    warnings: list[str]


@router.get("/livez")
async def livez() -> dict[str, str]:
    """This process answers, whatever the broker does."""
    return {"status": "alive"}


@router.get("/readyz")
@router.get("/status/ready", include_in_schema=False)
async def readyz(response: Response, kafka: KafkaDep, status: StatusDep) -> Readiness:
    """Whether Kafka clients can come; if not, why not."""
    broker, compactor = status.broker(), status.compactor()
    reasons = [*await unreachable(kafka), *problems_of(broker)]
    response.status_code = 503 if reasons else 200
    warnings = warnings_of(broker, compactor)
    return Readiness(ready=not reasons, reasons=reasons, warnings=warnings)
