"""Streams of records that are open, and how they end before their clients want it.

The plane stops, or whoever sends may no more. In either case nothing of the body is
taken from then on: what the producer has is reported, then why it ended, and the answer
ends. A broker that hangs meanwhile delays that for ``DELIVER_S`` when the plane stops,
then the producer gives up what it has, and each record has its report all the same.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Annotated, Final

from fastapi import Depends, Request

from admin_api.access.callers import CALLER, Asking
from admin_api.access.tokens import Role
from admin_api.bodies import StreamedBody
from admin_api.problems import Problem, problem_of

DELIVER_S: Final = 2.0


class Streams:
    """Those that are open."""

    def __init__(self) -> None:
        self._open: set[StreamedBody] = set()
        self._stopping = False

    @contextmanager
    def opened(self, body: StreamedBody) -> Iterator[None]:
        """It is one of them meanwhile."""
        self._open.add(body)
        if self._stopping:
            body.refuse(_stops())
        try:
            yield
        finally:
            self._open.discard(body)

    def stop(self) -> None:
        """End them all: the plane stops."""
        self._stopping = True
        for body in tuple(self._open):
            body.refuse(_stops())


def _stops() -> Problem:
    return Problem(503, "The plane stops: no record from here on is produced.")


async def _streamed(request: Request) -> AsyncIterator[StreamedBody]:
    body = StreamedBody(request)
    streams: Streams = request.app.state.streams
    asking: Asking = request.scope[CALLER]

    async def watch() -> None:
        body.refuse(problem_of(await asking.refused(Role.OPERATOR)))

    with streams.opened(body):
        watching = asyncio.create_task(watch())
        try:
            yield body
        finally:
            watching.cancel()


StreamedBodyDep = Annotated[StreamedBody, Depends(_streamed)]
"""The body as it comes; until the answer is sent it ends when it has to."""
