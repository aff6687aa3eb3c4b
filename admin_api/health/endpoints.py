"""Is it alive; can clients come, and if not, why.

Liveness asks nothing of the disk, of Spark or of the broker. Readiness is about Kafka
clients: a compactor that is away, or a table that takes no commit, is a warning, for
acknowledged records wait safely in their segments.
"""

from confluent_kafka import KafkaException
from fastapi import APIRouter, Response
from pydantic import BaseModel

from admin_api.dependencies import KafkaDep, StatusDep
from admin_api.kafka import Kafka
from admin_api.status import StatusFiles

router = APIRouter(tags=["health"])
PROBE_TIMEOUT_S = 2.0


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
    reasons = [*await _unreachable(kafka), *_of_broker(status)]
    response.status_code = 503 if reasons else 200
    return Readiness(ready=not reasons, reasons=reasons, warnings=_warnings(status))


async def _unreachable(kafka: Kafka) -> list[str]:
    try:
        await kafka.cluster(PROBE_TIMEOUT_S)
    except KafkaException as error:
        return [f"the broker at {kafka.bootstrap} does not answer: {error.args[0]}"]
    return []


def _of_broker(status: StatusFiles) -> tuple[str, ...]:
    broker = status.broker()
    if broker is None:
        return ("the broker's status file is missing or stale",)
    return broker.problems


def _warnings(status: StatusFiles) -> list[str]:
    """What is not well and keeps no client from coming."""
    broker, compactor = status.broker(), status.compactor()
    warnings = list(broker.warnings) if broker else []
    if compactor is None:
        waiting = "no compactor is running: acknowledged records wait in the segments"
        return [*warnings, waiting]
    return [*warnings, *compactor.problems]
