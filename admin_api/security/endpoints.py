"""How the listeners are guarded."""

import asyncio

from fastapi import APIRouter, Request

from admin_api.access.tokens import Tokens
from admin_api.dependencies import ClockDep, SettingsDep, StatusDep
from admin_api.security.report import report
from admin_api.security.schemas import SecurityReport

router = APIRouter(prefix="/v1/security", tags=["Security"])


@router.get("/report", summary="Get a security report")
async def get_report(
    request: Request, settings: SettingsDep, status: StatusDep, clock: ClockDep
) -> SecurityReport:
    """Of each listener whether it has TLS, authentication and authorization, and an
    alert for each of them that is missing where others reach it."""
    tokens = await asyncio.to_thread(Tokens(settings.data_dir).read)
    if tokens is not None:
        now_ms = clock.now_ms()
        tokens = {
            name: one for name, one in tokens.items() if not one.is_expired(now_ms)
        }
    broker = await asyncio.to_thread(status.broker)
    is_closed: bool = request.app.state.is_closed
    return report(
        (broker.kafka if broker else "") or settings.listener,
        request.app.state.address or settings.admin,
        settings,
        is_closed=is_closed,
        tokens=tokens,
    )
