"""Names with a slash in them, which a path writes as ``%2F``.

Servers decode a path before anybody looks for a route, so such a slash ends a
name. Here it stays apart: while routes are compared it is a character that no decoded
path has, and a slash again when an endpoint gets the name.
"""

from typing import Final
from urllib.parse import unquote

from fastapi import Request
from starlette.types import ASGIApp, Receive, Scope, Send

INSIDE: Final = "\udc2f"
"""The byte of a slash, escaped as Python escapes bytes that are no UTF-8."""


class EncodedSlashes:
    """Middleware: routes are compared with a path in which ``%2F`` ends no name."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the application with such a path."""
        raw_path: bytes = scope.get("raw_path") or b""
        if b"%2f" in raw_path.lower():
            scope = {**scope, "path": _path(raw_path.decode("ascii", "replace"))}
        await self._app(scope, receive, send)


def _path(raw_path: str) -> str:
    names = (unquote(name).replace("/", INSIDE) for name in raw_path.split("/"))
    return "/".join(names)


async def decode_names(request: Request) -> None:
    """Give the names of a path their slashes; before any endpoint asks for one."""
    names = request.scope["path_params"]
    for key, name in names.items():
        if isinstance(name, str):
            names[key] = name.replace(INSIDE, "/")
