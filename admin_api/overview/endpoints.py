"""How all parts are."""

from fastapi import APIRouter

from admin_api.dependencies import KafkaDep, LakeDep, StatusDep
from admin_api.overview.report import report
from admin_api.overview.schemas import Health

router = APIRouter(prefix="/v1", tags=["Cluster health"])


@router.get("/health", summary="Get an overview")
async def get_health(kafka: KafkaDep, status: StatusDep, lake: LakeDep) -> Health:
    """How broker, compactor and disk are, and why not well if so.

    Always a 200: `/readyz` is for probes, this is for people and consoles.
    """
    return await report(kafka, status, lake)
