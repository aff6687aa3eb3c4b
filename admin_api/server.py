"""The admin plane as a process: uvicorn on one socket, said when it listens."""

import asyncio
import socket
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

import uvicorn
from fastapi import FastAPI

from admin_api import logs
from admin_api.access import exposure
from admin_api.access.certificate import Certificate
from admin_api.access.tokens import Tokens
from admin_api.app import create_app
from admin_api.loggers.parts import Levels
from admin_api.records.streams import DELIVER_S
from admin_api.unread import Connection
from broker.settings import Settings

KEEP_ALIVE_S = 75
"""Longer than proxies and clients keep a connection that they may use again: who ends
it is whoever would ask, not the plane in the moment of the question."""


class _Announcing(uvicorn.Server):
    """A server that says where it listens once it does, and that it stops before it
    waits for the answers that are under way; it follows its certificate meanwhile."""

    def __init__(
        self,
        config: uvicorn.Config,
        announce: Callable[[], None],
        on_stop: Callable[[], Coroutine[Any, Any, None]],
        certificate: Certificate | None,
    ) -> None:
        super().__init__(config)
        self._announce, self._on_stop = announce, on_stop
        self._certificate = certificate
        self._following: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if not self.started:
            return
        if self._certificate is not None:
            self._following = asyncio.create_task(self._certificate.follow())
        self._announce()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._following is not None:
            self._following.cancel()
        stopping = asyncio.create_task(self._on_stop())
        await super().shutdown(sockets)
        stopping.cancel()


def run(
    bound: socket.socket,
    bootstrap: str,
    settings: Settings,
    announce: Callable[[str], None],
    *,
    insecure: bool = False,
    recent: Sequence[str] = (),
    levels: Levels | None = None,
) -> None:
    """Serve until SIGTERM or ctrl-C; says ``ready admin=http://HOST:PORT`` once.

    ``bound`` is what ``exposure.listen`` gave; ``recent`` has the lines that this
    process logged last, ``levels`` how much its loggers say. Raises ExposureRefused,
    TokensUnreadable.
    """
    exposure.check(bound, Tokens(settings.data_dir), insecure=insecure)
    has_tls = exposure.check_certificate(settings.admin_tls)
    certificate = Certificate(settings.admin_tls) if has_tls else None
    scheme = "http" if certificate is None else "https"
    host, port = bound.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    is_loopback = exposure.is_loopback(bound)
    app = create_app(
        bootstrap,
        settings,
        is_closed=not (insecure or is_loopback),
        is_exposed=not is_loopback,
        levels=levels,
    )
    app.state.address, app.state.recent = f"{shown}:{port}", recent
    logs.capture()
    server = _Announcing(
        configured(app, certificate),
        lambda: announce(f"ready admin={scheme}://{shown}:{port}"),
        partial(_end_streams, app),
        certificate,
    )
    server.run(sockets=[bound])


def configured(app: FastAPI, certificate: Certificate | None = None) -> uvicorn.Config:
    """How the application is served, of which nothing is the user's to choose."""
    return uvicorn.Config(
        app,
        http=Connection,
        log_config=None,
        log_level="warning",
        server_header=False,
        proxy_headers=False,  # any local process could send them: no peer is believed
        ws="none",
        loop="admin_api.handshakes:Loop",
        timeout_keep_alive=KEEP_ALIVE_S,
        ssl_context_factory=_context_factory(certificate),
        timeout_graceful_shutdown=5,
        # else a request begins in the context of the one before it on its connection,
        # whose deadline it would have (kafka.py)
        reset_contextvars=True,
    )


async def _end_streams(app: FastAPI) -> None:
    """Let whatever has no end by itself end, and what is on its way not take long."""
    app.state.readers.stopping.set()
    app.state.streams.stop()
    await asyncio.sleep(DELIVER_S)
    await asyncio.to_thread(app.state.producer.give_up)


def _context_factory(certificate: Certificate | None) -> Any:
    """As uvicorn asks for a context; None: no TLS."""
    return None if certificate is None else lambda *_: certificate.context()
