"""From a record in JSON to the report of where it is."""

import asyncio
import json
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from starlette.requests import ClientDisconnect

from admin_api.bodies import check_values
from admin_api.problems import Problem, problem_of
from admin_api.records.current import CurrentTopic
from admin_api.records.formats import encode, header
from admin_api.records.json_stream import JsonStream
from admin_api.records.producer import Delivered, Outgoing, RecordProducer
from admin_api.records.schemas import (
    ProduceData,
    ProduceRecord,
    Report,
    ReportedData,
    shown_time,
)
from admin_api.records.unfinished import AllUnfinished, Unfinished

IN_FLIGHT_MAX = 500
"""Records of one stream that were read and are not reported: then reading waits."""
SEPARATOR = b"\r\n"

Sending = Callable[[ProduceRecord], Awaitable[Awaitable[Report]]]
"""Sends a record; what it gives waits for the report."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where records go."""

    cluster_id: str
    topic: CurrentTopic
    producer: RecordProducer

    async def send(self, record: ProduceRecord) -> Awaitable[Report]:
        """The report of a record that is on its way now.

        It keeps of the record only sizes, however long nobody reads it. Raises Problem
        and KafkaException for a record that cannot be sent; waiting for the report
        raises KafkaException.
        """
        partition, name = record.partition_id, self.topic.name
        await self.topic.look_again(partition)
        if partition is not None and not 0 <= partition < self.topic.partitions:
            raise Problem(40402, f"Partition {partition} of {name} not found.")
        outgoing = Outgoing(
            topic=name,
            partition=partition,
            key=encode(record.key, "key"),
            value=encode(record.value, "value"),
            headers=[header(one) for one in record.headers or ()],
            timestamp_ms=record.timestamp_ms(),
        )
        key = _reported(record.key, outgoing.key)
        value = _reported(record.value, outgoing.value)
        return self._report(key, value, self.producer.send(outgoing))

    async def _report(
        self,
        key: ReportedData | None,
        value: ReportedData | None,
        delivered: "Future[Delivered]",
    ) -> Report:
        place = await asyncio.wrap_future(delivered)
        stamp_ms = place.timestamp_ms
        return Report(
            cluster_id=self.cluster_id,
            topic_name=self.topic.name,
            partition_id=place.partition,
            offset=place.offset,
            timestamp=None if stamp_ms is None else shown_time(stamp_ms),
            key=key,
            value=value,
        )


def _reported(said: ProduceData | None, sent: bytes | None) -> ReportedData | None:
    if said is None or said.type is None:
        return None
    return ReportedData(size=len(sent or b""), type=said.type)


async def parse(text: bytes) -> ProduceRecord:
    """A record. Raises Problem 400 saying what in it is wrong, HTTPException 413."""
    await check_values(text)
    try:
        return ProduceRecord.model_validate(json.loads(text))
    except (ValueError, RecursionError) as error:
        if hasattr(error, "errors"):
            raise problem_of(error) from None
        raise Problem(400, f"This is not JSON: {error}") from None


async def reports(
    chunks: AsyncIterable[bytes],
    send: Sending,
    unfinished: AllUnfinished,
    check: Callable[[], None] = lambda: None,
) -> AsyncIterator[tuple[int, bytes]]:
    """One report for each record in the order of the records: its code, and its bytes.

    Records are read on while earlier ones are on their way. A record that cannot be
    sent is a report like any other; what is no JSON object ends the stream, and so does
    the Problem that ``check`` raises before a record.
    """
    queue: asyncio.Queue[Awaitable[Report] | Problem | None]
    queue = asyncio.Queue(IN_FLIGHT_MAX)
    held = Unfinished(unfinished)
    reading = asyncio.create_task(_read(chunks, send, queue, held, check))
    try:
        while (one := await queue.get()) is not None:
            yield await _written(one)
    finally:
        reading.cancel()
        with suppress(asyncio.CancelledError):
            await reading
        while not queue.empty():
            _drop(queue.get_nowait())


async def _read(
    chunks: AsyncIterable[bytes],
    send: Sending,
    queue: "asyncio.Queue[Any]",
    unfinished: Unfinished,
    check: Callable[[], None] = lambda: None,
) -> None:
    stream, coming = JsonStream(), aiter(chunks)
    try:
        while (chunk := await unfinished.next(coming)) is not None:
            for text in stream.feed(chunk):
                check()
                await queue.put(await _sent(send, text))
                unfinished.hold(0)
            unfinished.hold(stream.unfinished)
        stream.close()
    except Problem as problem:
        await queue.put(problem)
    except ClientDisconnect:
        pass  # what it sent is delivered; nobody reads the reports
    finally:
        unfinished.hold(0)
    await queue.put(None)


async def _sent(send: Sending, text: bytes) -> Awaitable[Report] | Problem:
    try:
        return await send(await parse(text))
    except Exception as error:  # noqa: BLE001  (its report says what)
        return problem_of(error)


async def _written(one: Awaitable[Report] | Problem) -> tuple[int, bytes]:
    try:
        if isinstance(one, Problem):
            raise one
        report: BaseModel = await one
    except Exception as error:  # noqa: BLE001  (its report says what)
        problem = problem_of(error)
        body = {"error_code": problem.error_code, "message": problem.message}
        return problem.status, json.dumps(body).encode() + SEPARATOR
    return 200, report.model_dump_json(exclude_none=True).encode() + SEPARATOR


def _drop(one: Any) -> None:
    """A report that nobody waits for; its record is delivered all the same."""
    close = getattr(one, "close", None)
    if close is not None:
        close()
