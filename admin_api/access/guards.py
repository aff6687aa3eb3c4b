"""The dependencies by which routes say who may: every route has one.

``VIEWER`` stands on each router where the application includes it, so that a route that
says nothing is not open; a route that changes something says ``OPERATOR`` or ``ADMIN``.
"""

from typing import Annotated, Any, Final

from fastapi import Depends, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from admin_api.access.callers import CALLER, Asking, Caller
from admin_api.access.tokens import Role

_documented = HTTPBearer(
    auto_error=False,
    scheme_name="token",
    description="Made by `lakelog admin token create --role viewer|operator|admin`. "
    "Asked for once one was made, and where the plane listens on more than loopback.",
)


async def _caller(
    request: Request,
    _: Annotated[HTTPAuthorizationCredentials | None, Security(_documented)],
) -> Caller:
    asking: Asking = request.scope[CALLER]
    return await asking.caller()


CallerDep = Annotated[Caller, Depends(_caller)]


def needs(role: Role) -> Any:
    """A dependency that refuses whoever has not this role."""

    async def guard(caller: CallerDep) -> None:
        caller.require(role)

    guard.__dict__["role"] = role
    return Depends(guard)


VIEWER: Final = needs(Role.VIEWER)
OPERATOR: Final = needs(Role.OPERATOR)
ADMIN: Final = needs(Role.ADMIN)
