"""A debug bundle to download."""

import asyncio

from fastapi import APIRouter, Request, Response

from admin_api.access.guards import ADMIN
from admin_api.debug.bundle import archive, gather
from admin_api.debug.parts import Known, parts_of
from admin_api.dependencies import (
    ClockDep,
    FactsDep,
    InternalDep,
    KafkaDep,
    LakeDep,
    SettingsDep,
    StatusDep,
)
from admin_api.loggers.parts import Parts
from admin_api.metrics.endpoints import text
from admin_api.problems import Problem

router = APIRouter(prefix="/v1/debug", tags=["Debugging"])
MEDIA_TYPE = "application/gzip"
BYTES = {"type": "string", "format": "binary"}


@router.get(
    "/bundle",
    dependencies=[ADMIN],
    summary="Get a debug bundle",
    response_class=Response,
    responses={
        200: {"content": {MEDIA_TYPE: {"schema": BYTES}}, "description": "A tar."}
    },
)
async def get_bundle(
    request: Request,
    settings: SettingsDep,
    internal: InternalDep,
    lake: LakeDep,
    facts: FactsDep,
    kafka: KafkaDep,
    status: StatusDep,
    clock: ClockDep,
) -> Response:
    """Settings, figures, state of segments and tables, recent logs and stacks in a tar.

    No secrets: neither tokens nor keys nor records. `manifest.json` names what could
    not be had. One is made at a time (42901).
    """
    making: asyncio.Semaphore = request.app.state.bundles
    if making.locked():
        raise Problem(42901, "Another debug bundle is being made.")
    loggers: Parts = request.app.state.loggers
    sources = (lake, facts, kafka, status)
    recent = request.app.state.recent
    known = Known(settings, internal, loggers.compactor, sources, recent)

    async def metrics() -> bytes:
        return await asyncio.to_thread(text, status)

    async with making:
        found, missing = await gather({"metrics.txt": metrics, **parts_of(known)})
        made = await asyncio.to_thread(archive, found, missing, clock.now_ms())
    name = f"lakelog-debug-{clock.now_ms()}.tar.gz"
    disposition = f'attachment; filename="{name}"'
    return Response(
        made, media_type=MEDIA_TYPE, headers={"content-disposition": disposition}
    )
