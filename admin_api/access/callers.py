"""Who asks: known before anything of a request's body is read.

A request that needs a token and has none that is known goes on as a stranger's. Routes
that anybody may ask answer it; the guard of every other one refuses it, and so does its
body, for a framework reads bodies before it asks a guard.
"""

import asyncio
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from admin_api.access.hosts import Hosts
from admin_api.access.tokens import (
    TOKEN_CHARACTERS_MAX,
    Role,
    Tokens,
    TokensUnreadable,
    find,
)
from broker.clock import Clock, SystemClock

LOOK_S: Final = 2.0
"""So often it is looked whether who streams still may."""
CALLER: Final = "lakelog.caller"
_BEARER: Final = "bearer"
T = TypeVar("T")


class Refused(HTTPException):
    """Not served to this caller; ``error_code`` is Confluent's."""

    def __init__(self, error_code: int, detail: str) -> None:
        super().__init__(error_code // 100, detail)
        self.error_code = error_code


@dataclass(frozen=True, slots=True)
class Caller:
    """Whoever asks: by which token, and in which role; or why in none."""

    name: str
    role: Role | None
    refusal: Refused | None = None

    def require(self, role: Role) -> None:
        """Raises Refused unless they may what ``role`` may."""
        if self.refusal is not None:
            raise self.refusal
        if self.role is None or not self.role.includes(role):
            raise Refused(
                40301, f"This needs the role {role}; the token has {self.role}."
            )


ANYONE: Final = Caller("anyone", Role.ADMIN)
"""Whoever asks while no token is asked for."""


def _stranger(error_code: int, why: str) -> Caller:
    return Caller("stranger", None, Refused(error_code, why))


class Asking:
    """Who asks a request, looked up when somebody wants to know, and once.

    `/livez` does not: it must answer while the disk that has the tokens does not.
    """

    def __init__(
        self,
        scope: Scope,
        tokens: Tokens,
        hosts: Hosts | None,
        clock: Clock,
        *,
        is_closed: bool,
    ) -> None:
        self._headers: list[tuple[bytes, bytes]] = scope["headers"]
        self._tokens, self._hosts, self._is_closed = tokens, hosts, is_closed
        self._clock = clock
        self._known: Caller | None = None

    @property
    def name(self) -> str:
        """For the log: whose token it is, as far as anybody looked."""
        return self._known.name if self._known is not None else ANYONE.name

    async def caller(self) -> Caller:
        """Whoever asks."""
        if self._known is None:
            self._known = await self._look_up()
        return self._known

    async def refused(self, role: Role) -> Refused:
        """Why they may no more what ``role`` may; comes within seconds after it is so.
        A token may be revoked, or expire, while a stream goes on."""
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                await self.require_still(role)
            except Refused as refused:
                return refused

    async def while_allowed(self, role: Role, work: Coroutine[Any, Any, T]) -> T:
        """What ``work`` gives. It is cancelled, and Refused raised, once they may no
        more what ``role`` may."""

        async def refuse(working: asyncio.Timeout) -> Refused:
            refused = await self.refused(role)
            working.reschedule(asyncio.get_running_loop().time())
            return refused

        async with asyncio.timeout(None) as working:
            refusing = asyncio.create_task(refuse(working))
            try:
                return await work
            except asyncio.CancelledError:
                if refusing.done():
                    raise refusing.result() from None
                raise
            finally:
                refusing.cancel()

    async def require_still(self, role: Role) -> None:
        """Raises Refused if they may no more what ``role`` may."""
        (await self._look_up()).require(role)

    async def _look_up(self) -> Caller:
        try:
            tokens = await asyncio.to_thread(self._tokens.read)
        except TokensUnreadable as error:
            return _stranger(50301, f"Nobody is let in: {error}.")
        if tokens is None and not self._is_closed:
            return self._anyone()
        text = bearer(self._headers)
        if text is None:
            return _stranger(40101, "This needs a token: Authorization: Bearer TOKEN.")
        token = find(tokens or {}, text)
        if token is None:
            return _stranger(40101, "The token is not known, or was revoked.")
        if token.is_expired(self._clock.now_ms()):
            return _stranger(40101, "The token has expired.")
        return Caller(token.id, token.role)

    def _anyone(self) -> Caller:
        """Whoever asks this machine by a name of its own."""
        why = None if self._hosts is None else self._hosts.refusal(self._headers)
        return ANYONE if why is None else _stranger(42101, why)


class Callers:
    """Middleware: lets each request know who asks.

    While no token was made anybody may ask by one of the ``hosts``, or by any name if
    these are None; with ``is_closed`` a token is asked for even then.
    """

    def __init__(
        self,
        app: ASGIApp,
        tokens: Tokens,
        hosts: Hosts | None = None,
        clock: Clock | None = None,
        *,
        is_closed: bool,
    ) -> None:
        self._app, self._is_closed = app, is_closed
        self._tokens, self._hosts = tokens, hosts
        self._clock = clock or SystemClock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the application; a stranger's body refuses to be read."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        asking = Asking(
            scope, self._tokens, self._hosts, self._clock, is_closed=self._is_closed
        )

        async def guarded() -> Message:
            caller = await asking.caller()
            message = await receive()
            if message["type"] == "http.request" and caller.refusal is not None:
                raise caller.refusal
            return message

        await self._app({**scope, CALLER: asking}, guarded, send)


def bearer(headers: list[tuple[bytes, bytes]] | Mapping[bytes, bytes]) -> str | None:
    """The token of the one Authorization header; None if there is none or several."""
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    values = [value for name, value in pairs if name == b"authorization"]
    if len(values) != 1:
        return None
    scheme, _, text = values[0].decode("latin-1").partition(" ")
    text = text.strip()
    if scheme.lower() != _BEARER or not 0 < len(text) <= TOKEN_CHARACTERS_MAX:
        return None
    return text
