"""Records over HTTP: one, a batch, or a stream of them with a stream of reports."""

from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response
from starlette.types import Receive, Scope, Send

from admin_api.dependencies import ClusterDep, KafkaDep, ProducerDep, TopicNameDep
from admin_api.problems import Problem
from admin_api.records.delivery import Target, reports
from admin_api.records.entries import deliver_all
from admin_api.records.schemas import (
    BatchReport,
    ProduceBatch,
    ProduceRecord,
    Report,
)

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
    """Reports as they come, while the request's body still does."""

    media_type = "application/json"

    def __init__(self, found: AsyncIterator[tuple[int, bytes]], first: bytes) -> None:
        super().__init__()
        del self.headers["content-length"]
        self._found, self._first = found, first

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        head = {"type": "http.response.start", "status": 200}
        await send(head | {"headers": self.raw_headers})
        part = {"type": "http.response.body", "more_body": True}
        if self._first:
            await send(part | {"body": self._first})
        async for _, report in self._found:
            await send(part | {"body": report})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _target(
    cluster: ClusterDep, name: TopicNameDep, kafka: KafkaDep, producer: ProducerDep
) -> Target:
    [topic] = await kafka.describe_topics([name])
    return Target(cluster.id, name, len(topic.partitions), producer)


TargetDep = Annotated[Target, Depends(_target)]


@router.post(
    "/records", summary="Produce records", response_model=Report, openapi_extra=BODY
)
async def produce(request: Request, target: TargetDep) -> Any:
    """Produce the records of the body, concatenated JSON objects.

    There is one report for each, in their order, each with its own `error_code`. With
    `Transfer-Encoding: chunked` reports come while records still go. The status is 200,
    but for a body of known length with a single record, whose error it is.
    """
    found = reports(request.stream(), target.send)
    if request.headers.get("transfer-encoding") is not None:
        return Reports(found, b"")
    first = await anext(found, None)
    if first is None:
        raise Problem(42206, "Payload error. Null input provided. Data is required.")
    second = await anext(found, None)
    if second is not None:
        return Reports(found, first[1] + second[1])
    return Response(first[1], status_code=first[0], media_type="application/json")


@router.post(
    "/records:batch",
    status_code=207,
    summary="Produce a batch of records",
    response_model_exclude_none=True,
)
async def produce_batch(target: TargetDep, body: ProduceBatch) -> BatchReport:
    """Produce several records; those that could not be are among the failures."""
    return await deliver_all(target, body)
