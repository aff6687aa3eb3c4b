"""Names with a slash in them, which a path writes as ``%2F``.

Servers decode a path before anybody looks for a route, so such a slash ends a
name. Here it stays apart: while routes are compared it is written out as it was, and so
is each percent sign beside it; an endpoint gets the name as it is. A path with a slash
too many at its end is another path, which is not there: nobody is sent anywhere before
it is known who asks.
"""

from typing import Final
from urllib.parse import unquote

from fastapi import Request
from starlette.types import ASGIApp, Receive, Scope, Send

_WRITTEN_OUT: Final = "lakelog.slashes"
"""Says in a scope that the names of its path are written so."""


class EncodedSlashes:
    """Middleware: routes are compared with a path in which ``%2F`` ends no name."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the application with such a path."""
        raw_path: bytes = scope.get("raw_path") or b""
        if b"%2f" in raw_path.lower():
            path = _path(raw_path.decode("ascii", "replace"))
            scope = {**scope, "path": path, _WRITTEN_OUT: True}
        await self._app(scope, receive, send)


def _path(raw_path: str) -> str:
    return "/".join(_written_out(unquote(name)) for name in raw_path.split("/"))


def _written_out(name: str) -> str:
    return name.replace("%", "%25").replace("/", "%2F")


async def decode_names(request: Request) -> None:
    """Give the names of a path their slashes; before any endpoint asks for one."""
    if _WRITTEN_OUT not in request.scope:
        return
    names = request.scope["path_params"]
    for key, name in names.items():
        if isinstance(name, str):
            names[key] = name.replace("%2F", "/").replace("%25", "%")
