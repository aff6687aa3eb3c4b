"""One question for records, from the plan to the answer."""

import threading
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from admin_api.lake import Lake
from admin_api.reading.filters import Predicate
from admin_api.reading.gather import Gathered, Limits, gather
from admin_api.reading.lookback import Lookback
from admin_api.reading.page import Page
from admin_api.reading.plan import Spans
from admin_api.reading.readers import Readers
from admin_api.reading.schemas import Ending, Position, RecordList
from admin_api.reading.silence import check_table
from admin_api.resources import CollectionMetadata
from broker.clock import Clock


@dataclass(frozen=True, slots=True)
class Question:
    """What is read, which of it is wanted, and the filter as it was written; with
    ``lookback`` the spans begin where so many records come."""

    topic: str
    spans: Spans
    limits: Limits
    wanted: Predicate
    text: str
    lookback: Lookback | None = None


async def read(
    question: Question, readers: Readers, clock: Clock, lake: Lake, base: str
) -> Page:
    """The answer, whose JSON is written on the reader's thread: it may be long.

    Raises KafkaException; Problem 42901 while too many are reading; Problem 40900 and
    LakehouseError where nothing came and the table cannot be read.
    """

    def work(consumer: Any, stop: threading.Event) -> bytes:
        spans, limits = _begun(question, consumer, stop, clock)
        found = gather(
            consumer,
            stop,
            question.topic,
            spans,
            limits,
            question.wanted,
            clock.monotonic_ms,
        )
        consumer.unassign()  # or it fetched on while the answer is sent
        if found.ended_by == Ending.TIMEOUT and not found.scanned:
            check_table(lake, question.topic, spans, found.positions)
        return _encoded(answer(question, found, base))

    starts = {n: start for n, (start, end) in question.spans.items() if start < end}
    if not starts:
        ends = {number: start for number, (start, _) in question.spans.items()}
        return Page(_encoded(answer(question, Gathered(ends), base)), None)
    reader = readers.reader(question.topic, starts)
    try:
        return Page(await reader.run(work), reader)
    except BaseException:
        reader.close()
        raise


def _begun(
    question: Question, consumer: Any, stop: threading.Event, clock: Clock
) -> tuple[Spans, Limits]:
    """The spans from where they begin, and the limits with the time that is left."""
    limits, back = question.limits, question.lookback
    if back is None or not back.is_counted(question.spans):
        return question.spans, limits
    begun_ms = clock.monotonic_ms()
    spans = back.begin(
        consumer,
        stop,
        question.topic,
        question.spans,
        limits.timeout_ms // 2,
        clock.monotonic_ms,
    )
    left_ms = limits.timeout_ms - (clock.monotonic_ms() - begun_ms)
    return spans, replace(limits, timeout_ms=max(1, left_ms))


def answer(question: Question, found: Gathered, base: str) -> RecordList:
    """What was found, and the link that reads on unless all was read."""
    url = f"{base}/v1/topics/{question.topic}/records"
    following = None
    if found.ended_by != Ending.END:
        following = f"{url}?{_query(question, found)}"
    return RecordList(
        metadata=CollectionMetadata(self=url, next=following),
        topic_name=question.topic,
        ended_by=found.ended_by,
        scanned=found.scanned,
        positions=[
            Position(partition_id=number, offset=offset)
            for number, offset in sorted(found.positions.items())
        ],
        data=found.records,
    )


def _encoded(found: RecordList) -> bytes:
    return found.model_dump_json().encode()


def _query(question: Question, found: Gathered) -> str:
    limits = question.limits
    said: list[tuple[str, object]] = [
        ("limit", limits.records),
        ("bytes_max", limits.bytes),
        ("timeout_ms", limits.timeout_ms),
    ]
    if question.text:
        said.append(("filter", question.text))
    places = sorted(found.positions.items())
    return urlencode(said + [("at", f"{n}:{offset}") for n, offset in places])
