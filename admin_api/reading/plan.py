"""From which offset to which each partition is read.

The ends are those of the moment of asking: a topic that is written to all the time is
read to there and no further.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from confluent_kafka.admin import OffsetSpec

from admin_api.kafka import Kafka, Watermarks
from admin_api.problems import Problem
from admin_api.refusals import unless_refused

PARTITIONS_MAX: Final = 500
_PLACE: Final = re.compile(r"(\d{1,9}):(\d{1,18})", re.ASCII)

Spans = dict[int, tuple[int, int]]
"""Partition -> [first offset, end offset)."""


class Planned(NamedTuple):
    """What is to be read, and where the logs of its partitions begin."""

    spans: Spans
    firsts: dict[int, int]


class Followed(NamedTuple):
    """A topic, by the text of its id, and from where its partitions are followed."""

    topic_id: str
    starts: dict[int, int]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Where to begin; at most one of the four, or the beginning of the log."""

    partitions: Sequence[int] = ()
    offset: int | None = None
    timestamp_ms: int | None = None
    last: int | None = None
    places: Sequence[str] = ()

    def check(self) -> None:
        """Raises Problem 400 for what contradicts itself."""
        said = [self.offset, self.timestamp_ms, self.last, self.places or None]
        if sum(one is not None for one in said) > 1:
            raise Problem(400, "Say one of offset, timestamp_ms, last and at.")
        if self.places and self.partitions:
            raise Problem(400, "at names the partitions itself: leave partition out.")


async def plan(kafka: Kafka, topic: str, wanted: Wanted) -> Planned:
    """What is to be read; of the last records as many offsets. Raises Problem, and
    KafkaException."""
    wanted.check()
    starts = _places(wanted.places)
    chosen = _chosen(await _topic(kafka, topic), topic, starts or wanted.partitions)
    marks = await _marks(kafka, topic, chosen)
    if wanted.offset is not None:
        starts = dict.fromkeys(chosen, wanted.offset)
    elif wanted.timestamp_ms is not None:
        starts = await _since(kafka, topic, marks, wanted.timestamp_ms)
    elif wanted.last is not None:
        ends = {number: mark.last_stable_offset for number, mark in marks.items()}
        starts = {number: max(0, end - wanted.last) for number, end in ends.items()}
    spans = {
        number: _span(number, starts.get(number, 0), marks[number]) for number in chosen
    }
    return Planned(spans, {number: marks[number].log_start for number in chosen})


async def from_the_end(kafka: Kafka, topic: str, wanted: Wanted) -> Followed:
    """Where to begin to follow a topic: at its end, or ``at`` the places said.

    The id is what it had before the offsets were asked for: if they are another
    topic's, who compares it later finds out.
    """
    wanted.check()
    starts = _places(wanted.places)
    found = await _topic(kafka, topic)
    chosen = _chosen(found, topic, starts or wanted.partitions)
    marks = await _marks(kafka, topic, chosen)
    ends = {number: marks[number].last_stable_offset for number in chosen}
    first = {
        number: _span(number, starts.get(number, end), marks[number])[0]
        for number, end in ends.items()
    }
    return Followed(str(found.topic_id), first)


def _places(places: Sequence[str]) -> dict[int, int]:
    found: dict[int, int] = {}
    for place in places:
        match = _PLACE.fullmatch(place)
        if match is None or int(match[1]) in found:
            raise Problem(400, "at: say partition:offset, each partition once.")
        found[int(match[1])] = int(match[2])
    return found


async def _topic(kafka: Kafka, topic: str) -> Any:
    """As librdkafka's TopicDescription."""
    asking = kafka.describe_topics([topic])
    [found] = await unless_refused(asking, kafka.bootstrap)
    return found


def _chosen(
    found: Any, topic: str, wanted: Mapping[int, int] | Sequence[int]
) -> list[int]:
    there = {one.id for one in found.partitions}
    for number in wanted:
        if number not in there:
            raise Problem(40402, f"Topic {topic} has no partition {number}.")
    chosen = sorted(set(wanted) or there)
    if len(chosen) > PARTITIONS_MAX:
        raise Problem(400, f"partition: choose at most {PARTITIONS_MAX} of them.")
    return chosen


async def _marks(
    kafka: Kafka, topic: str, chosen: Sequence[int]
) -> dict[int, Watermarks]:
    asked = [(topic, number) for number in chosen]
    found = await kafka.watermarks(asked, kafka.timeout_s)
    marks = {
        number: found[topic, number] for number in chosen if (topic, number) in found
    }
    if len(marks) < len(chosen):
        raise Problem(40403, f"There is no topic {topic} any more.")
    return marks


async def _since(
    kafka: Kafka, topic: str, marks: Mapping[int, Watermarks], timestamp_ms: int
) -> dict[int, int]:
    """The first offset of that time or later; the end where there is none."""
    asked = [(topic, number) for number in marks]
    found = await kafka.offsets(asked, OffsetSpec.for_timestamp(timestamp_ms))
    starts = {number: found.get((topic, number), -1) for number in marks}
    return {
        number: marks[number].last_stable_offset if start < 0 else start
        for number, start in starts.items()
    }


def _span(number: int, start: int, mark: Watermarks) -> tuple[int, int]:
    """What is below the start of the log is gone, what is above its end not there."""
    first, end = mark.log_start, mark.last_stable_offset
    if start > mark.high_watermark:
        raise Problem(
            400,
            f"Partition {number} has no offset {start} yet: it has those from "
            f"{first} up to {end}.",
        )
    return max(start, first), max(end, first)
