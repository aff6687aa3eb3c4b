"""Records out of a consumer, until there are enough; blocks, within a deadline.

One record at a time: so many of a megabyte are never held at once, and the deadline is
looked at between two, however long a filter takes for each.

Of each partition what is wanted is looked at in order, and ``positions`` say how far
that went: who reads on from there misses nothing and gets nothing twice.
"""

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from admin_api.problems import Problem
from admin_api.reading.filters import Predicate, Subject
from admin_api.reading.plan import Spans
from admin_api.reading.schemas import Ending, ReadRecord, render

TURN_S: Final = 0.2
"""How long to wait for records before looking whether somebody still waits."""
_PASSING: Final = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TIMED_OUT,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.REQUEST_TIMED_OUT,
    }
)
"""librdkafka tries again by itself."""
_DAMAGED: Final = frozenset({KafkaError.INVALID_MSG, KafkaError._BAD_MSG})


@dataclass(frozen=True, slots=True)
class Limits:
    """When to stop, the bytes after the record that passes them."""

    records: int
    bytes: int
    timeout_ms: int


@dataclass(slots=True)
class Gathered:
    """What was found, and how far."""

    positions: dict[int, int]
    records: list[ReadRecord] = field(default_factory=list)
    bytes: int = 0
    scanned: int = 0
    ended_by: Ending = Ending.END


def gather(
    consumer: Any,
    stop: threading.Event,
    topic: str,
    spans: Spans,
    limits: Limits,
    wanted: Predicate,
    now_ms: Callable[[], int],
) -> Gathered:
    """The wanted records of the spans, by partition and offset.

    Raises KafkaException for what a partition answers, and if nothing could be read;
    Problem 40900 where the log is damaged.
    """
    deadline_ms = now_ms() + limits.timeout_ms
    found = Gathered({number: start for number, (start, _) in spans.items()})
    waiting = {number for number, (start, end) in spans.items() if start < end}
    trouble: KafkaError | None = None
    while waiting and found.ended_by == Ending.END:
        left_s = (deadline_ms - now_ms()) / 1000
        if left_s <= 0 or stop.is_set():
            found.ended_by = Ending.TIMEOUT
            break
        message = consumer.poll(min(left_s, TURN_S))
        if message is None:
            continue
        trouble, before = _trouble(message) or trouble, len(waiting)
        _take(message, found, spans, waiting, wanted)
        found.ended_by = _ending(found, limits)
        if len(waiting) < before:
            _pause(consumer, topic, spans.keys() - waiting)
    if trouble is not None and waiting and not found.scanned:
        raise KafkaException(trouble)
    found.records.sort(key=lambda record: (record.partition_id, record.offset))
    return found


def _take(
    message: Any,
    found: Gathered,
    spans: Spans,
    waiting: set[int],
    wanted: Predicate,
) -> None:
    """Look at what the consumer gave of one partition."""
    number, error = message.partition(), message.error()
    if number not in waiting or (error is not None and not _is_end(error)):
        return
    end = spans[number][1]
    if error is None and message.offset() < end:
        found.scanned += 1
        found.positions[number] = message.offset() + 1
        if wanted(subject_of(message)):
            found.records.append(render(message))
            found.bytes += size_of(message)
    if error is not None or message.offset() >= end - 1:
        found.positions[number] = end
        waiting.discard(number)


def _ending(found: Gathered, limits: Limits) -> Ending:
    if len(found.records) >= limits.records:
        return Ending.RECORDS
    return Ending.BYTES if found.bytes >= limits.bytes else Ending.END


def _pause(consumer: Any, topic: str, numbers: Iterable[int]) -> None:
    """Fetch no more of what was read to its end."""
    places = [TopicPartition(topic, number) for number in numbers]
    assigned = {place.partition for place in consumer.assignment()}
    done = [place for place in places if place.partition in assigned]
    if done:
        consumer.incremental_unassign(done)


def _trouble(message: Any) -> KafkaError | None:
    """An error that passes by itself, perhaps. Raises KafkaException for others, and
    Problem."""
    error = message.error()
    if error is None or _is_end(error):
        return None
    raise_unless_passing(message)
    found: KafkaError = error
    return found


def raise_unless_passing(message: Any) -> None:
    """Raises KafkaException for an error that does not pass by itself, and Problem
    40900 for records that are damaged."""
    error = message.error()
    if error.code() in _DAMAGED:
        raise Problem(
            40900,
            f"The log of {message.topic()}-{message.partition()} is damaged from "
            f"offset {message.offset()} on; with `at` it is read behind that.",
        )
    if error.code() not in _PASSING:
        raise KafkaException(error)


def _is_end(error: KafkaError) -> bool:
    return bool(error.code() == KafkaError._PARTITION_EOF)


def subject_of(message: Any) -> Subject:
    """A record as filters see it."""
    kind, timestamp_ms = message.timestamp()
    return Subject(
        partition=message.partition(),
        offset=message.offset(),
        timestamp_ms=timestamp_ms if kind else None,
        key=message.key(),
        value=message.value(),
        headers=dict(message.headers() or ()),
    )


def size_of(message: Any) -> int:
    """Bytes of a record's key, value and headers."""
    headers = message.headers() or ()
    return (
        len(message.key() or b"")
        + len(message.value() or b"")
        + sum(len(name) + len(value or b"") for name, value in headers)
    )
