"""Records over HTTP: one, a batch, or a stream of them with a stream of reports."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from admin_api.access.guards import OPERATOR
from admin_api.bodies import StreamedBody
from admin_api.dependencies import ClusterDep, KafkaDep, ProducerDep, TopicNameDep
from admin_api.problems import Problem
from admin_api.records import backlog
from admin_api.records.backlog import Backlog, Held
from admin_api.records.current import CurrentTopic
from admin_api.records.delivery import Target, reports
from admin_api.records.entries import deliver_all
from admin_api.records.schemas import (
    BatchReport,
    ProduceBatch,
    ProduceRecord,
    Report,
)
from admin_api.records.streams import StreamedBodyDep

router = APIRouter(
    prefix="/v3/clusters/{cluster_id}/topics/{topic_name}", tags=["Records"]
)
SCHEMA = ProduceRecord.model_json_schema(ref_template="#/components/schemas/{model}")
BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": SCHEMA}},
    }
}


class Reports(Response):
    """Reports as they come, while the request's body still does.

    Whether they are read or not, the body is, up to what a backlog may hold.
    """

    media_type = "application/json"

    def __init__(
        self,
        body: StreamedBody,
        found: AsyncIterator[tuple[int, bytes]],
        first: bytes,
        all_held: Held,
    ) -> None:
        super().__init__()
        del self.headers["content-length"]
        self._body, self._found = body, found
        self._first = first
        self._backlog = Backlog(all_held, backlog.BYTES_MAX)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        head = {"type": "http.response.start", "status": 200}
        await send(head | {"headers": self.raw_headers})
        part = {"type": "http.response.body", "more_body": True}
        self._backlog.put(self._first)
        reading = asyncio.create_task(self._read())
        try:
            while (some := await self._backlog.take()) is not None:
                await send(part | {"body": some})
        finally:
            reading.cancel()
            try:
                with suppress(asyncio.CancelledError):
                    await reading
            finally:
                self._backlog.forget()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _read(self) -> None:
        """Keep all reports; then the rest of a body that was not read to its end."""
        refused = False
        try:
            async for _, report in self._found:
                self._backlog.put(report)
                if not refused and not await self._backlog.has_room(backlog.STUCK_S):
                    self._body.refuse(_unread())
                    refused = True
        finally:
            self._backlog.end()
        with suppress(ClientDisconnect):
            await self._body.discard()


def _unread() -> Problem:
    return Problem(
        42901,
        f"No report was read for {backlog.STUCK_S:g} s and too many wait: no record "
        "from here on is produced.",
    )


async def _target(
    cluster: ClusterDep, name: TopicNameDep, kafka: KafkaDep, producer: ProducerDep
) -> Target:
    topic = CurrentTopic(name, kafka, producer)
    await topic.look()
    return Target(cluster.id, topic, producer)


TargetDep = Annotated[Target, Depends(_target)]


@router.post(
    "/records",
    dependencies=[OPERATOR],
    summary="Produce records",
    response_model=Report,
    openapi_extra=BODY,
)
async def produce(request: Request, target: TargetDep, body: StreamedBodyDep) -> Any:
    """Produce the records of the body, concatenated JSON objects.

    There is one report for each, in their order, each with its own `error_code`. With
    `Transfer-Encoding: chunked` reports come while records still go. The status is 200,
    but for a body of known length with a single record, whose error it is. When the
    plane stops, or the token is revoked or expires, a stream ends: all that was taken
    is reported, and the last report says why no more is.
    """
    all_unfinished = request.app.state.all_unfinished
    found = reports(body, target.send, all_unfinished, body.check)
    all_held: Held = request.app.state.all_held
    if request.headers.get("transfer-encoding") is not None:
        return Reports(body, found, b"", all_held)
    first = await anext(found, None)
    if first is None:
        raise Problem(42206, "Payload error. Null input provided. Data is required.")
    second = await anext(found, None)
    if second is not None:
        return Reports(body, found, first[1] + second[1], all_held)
    return Response(first[1], status_code=first[0], media_type="application/json")


@router.post(
    "/records:batch",
    dependencies=[OPERATOR],
    status_code=207,
    summary="Produce a batch of records",
    response_model_exclude_none=True,
)
async def produce_batch(target: TargetDep, body: ProduceBatch) -> BatchReport:
    """Produce several records; those that could not be are among the failures."""
    return await deliver_all(target, body)
