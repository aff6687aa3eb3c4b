"""Server-sent events of what comes to a topic, for as long as somebody listens.

The loop takes a handful of records at a time, sends it, and takes the next one when the
client has room: a slow client costs what librdkafka keeps for it and two handfuls. One
that reads nothing at all is left once its time is over: its reader is somebody else's.
Reading, filters and JSON are the reader's thread's work.

Source: the HTML standard, "Server-sent events".
"""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from admin_api.access.callers import Refused
from admin_api.problems import Problem, problem_of
from admin_api.reading.filters import Predicate
from admin_api.reading.gather import TURN_S, raise_unless_passing, subject_of
from admin_api.reading.progress import Progress
from admin_api.reading.readers import Reader
from admin_api.reading.schemas import render
from admin_api.unread import ENDLESS
from lakehouse.errors import LakehouseError

TURN_RECORDS: Final = 20
TURN_BYTES: Final = 64 << 10
"""The record that passes them is the last one of its turn."""
UNREAD_S: Final = 30.0
"""So long after its time a client may still be reading."""
HEARTBEAT_MS: Final = 5_000
CHECK_MS: Final = 2_000
"""So often it is asked whether to go on, whatever comes."""
FOLLOWING: Final = b": following\n\n"
_HEARTBEAT: Final = b": nothing new\n\n"


@dataclass(frozen=True, slots=True)
class TailLimits:
    """When a tail ends by itself."""

    records: int
    duration_ms: int


class Tail(StreamingResponse):
    """A stream that closes its reader, however it ends."""

    def __init__(
        self, reader: Reader, events: AsyncIterator[bytes], duration_ms: int
    ) -> None:
        super().__init__(
            events,
            media_type="text/event-stream",
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        )
        self._reader = reader
        self._most_s = duration_ms / 1000 + UNREAD_S

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope.setdefault("state", {})[ENDLESS] = True
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._most_s):
                    await super().__call__(scope, receive, send)
        finally:
            self._reader.close()


async def follow(
    reader: Reader,
    limits: TailLimits,
    wanted: Predicate,
    now_ms: Callable[[], int],
    check: Callable[[], Awaitable[object]],
    progress: Progress,
) -> AsyncIterator[bytes]:
    """Events: ``record`` for each wanted one, at the end ``end`` or ``problem``.

    ``check`` is asked every two seconds. It raises KafkaException or Problem once there
    is nothing to follow any more, LakehouseError where the table cannot be read,
    Refused once whoever follows may no more. ``progress`` is told how far it came.
    """
    yield FOLLOWING
    end_ms = now_ms() + limits.duration_ms
    left, said_ms, checked_ms = limits.records, now_ms(), now_ms()
    try:
        while left > 0 and now_ms() < end_ms and not reader.stopping.is_set():
            if now_ms() - checked_ms >= CHECK_MS:
                await check()
                checked_ms = now_ms()
            turn = _Turn(wanted, min(left, TURN_RECORDS), progress)
            events = await reader.run(turn.take)
            left -= len(events)
            if not events and now_ms() - said_ms < HEARTBEAT_MS:
                continue
            said_ms = now_ms()
            said = b"".join(events) or _HEARTBEAT
            for first in range(0, len(said), TURN_BYTES):
                yield said[first : first + TURN_BYTES]  # TLS shows no less of it move
    except (KafkaException, Problem, LakehouseError, Refused) as error:
        problem = problem_of(error)
        named = {"error_code": problem.error_code, "message": problem.message}
        yield _event("problem", named)
        return
    stopped = reader.stopping.is_set()
    why = "RECORDS" if left <= 0 else "STOP" if stopped else "TIMEOUT"
    yield _event("end", {"ended_by": why})


@dataclass(frozen=True, slots=True)
class _Turn:
    """What is taken at a time."""

    wanted: Predicate
    records_max: int
    progress: Progress

    def take(self, consumer: Any, _stop: threading.Event) -> list[bytes]:
        """Events of at most so many records; none if none comes."""
        found: list[bytes] = []
        size, wait_s = 0, TURN_S
        for _ in range(self.records_max):
            message = consumer.poll(wait_s)
            if message is None:
                break
            wait_s = 0.0
            error = message.error()
            if error is not None:
                _raise_if_final(message)
            self._note(message)
            if error is None and self.wanted(subject_of(message)):
                found.append(_record(message))
                size += len(found[-1])
            if size >= TURN_BYTES:
                break
        return found

    def _note(self, message: Any) -> None:
        error, number = message.error(), message.partition()
        if error is None:
            self.progress.came_to(number, message.offset() + 1, is_end=False)
        elif error.code() == KafkaError._PARTITION_EOF:
            self.progress.came_to(number, message.offset(), is_end=True)


def _raise_if_final(message: Any) -> None:
    if message.error().code() != KafkaError._PARTITION_EOF:
        raise_unless_passing(message)


def _record(message: Any) -> bytes:
    place = f"{message.partition()}:{message.offset()}"
    return f"id: {place}\n".encode() + _event("record", render(message).model_dump())


def _event(name: str, said: Any) -> bytes:
    """JSON has no raw line breaks, so it is one line of data."""
    return f"event: {name}\ndata: {json.dumps(said)}\n\n".encode()
