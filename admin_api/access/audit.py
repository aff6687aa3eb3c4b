"""One line in the log for each change, tried or done, and each refusal: who, what, from
where.

Never a query, a header or a body: what is produced and filtered for is nobody else's.
"""

from typing import Annotated, Any, Final

import structlog
from fastapi import Depends, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from admin_api.access.callers import CALLER

log = structlog.get_logger("lakelog.admin")

_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_RECORDS: Final = ("/records", "/records:batch")
_REFUSED: Final = (401, 403, 421)
_OUTCOME: Final = "lakelog.outcome"


class Outcome:
    """What an endpoint says of a request, for its line in the log."""

    def __init__(self) -> None:
        self.is_dry_run = False
        """It was only asked what a change would do."""
        self.is_void = False
        """Nothing of it could be done, though its status is none of an error."""
        self.is_in_doubt = False
        """Nobody knows whether anything of it was done, though its status is none."""

    def named(self, status: int) -> str:
        """Whether something was changed; who is told of a fault or that time ran out
        cannot know."""
        if 400 <= status < 500 or self.is_void:
            return "not changed"
        if self.is_dry_run:
            return "dry run"
        is_done = status < 400 and not self.is_in_doubt
        return "changed" if is_done else "perhaps changed"


def _outcome(request: Request) -> Outcome:
    outcome: Outcome = request.scope[_OUTCOME]
    return outcome


OutcomeDep = Annotated[Outcome, Depends(_outcome)]
"""For endpoints that may be asked for a dry run."""


class Audit:
    """Middleware: logs requests that were refused and those that changed something."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the application, and log how it answered if that is worth a line."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 500  # whoever raises is answered so
        outcome = Outcome()

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app({**scope, _OUTCOME: outcome}, receive, noted)
        finally:
            if status in _REFUSED:
                log.warning("refused", **_facts(scope, status))
            elif _changes(scope):
                if CALLER in scope:  # nobody asked yet where no route did
                    await scope[CALLER].caller()
                log.info(outcome.named(status), **_facts(scope, status))


def _changes(scope: Scope) -> bool:
    """Whether it is meant to change something; records that are produced are not."""
    method, path = scope["method"], scope["path"]
    is_produced = method == "POST" and path.endswith(_RECORDS)
    return method not in _READING and not is_produced  # a topic may be called records


def _facts(scope: Scope, status: int) -> dict[str, Any]:
    client, asking = scope.get("client"), scope.get(CALLER)
    return {
        "method": scope["method"],
        "path": scope["path"],
        "status": status,
        "caller": asking.name if asking is not None else "",
        "peer": client[0] if client else "",
    }
