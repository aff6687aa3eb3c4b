"""Where the last N records of each partition begin.

The problem: not each offset has a record. Ends of transactions, what was aborted, and
what cleaning took out have offsets, too, and nobody is told which. The idea: what comes
of the last N offsets is counted; where fewer come, as many before them and more are
looked at, until there are N or the log begins. The price: these are read twice. So it
is done for `COUNTED_MAX` records of all partitions together, and for half of the time
that a question has; beyond, N offsets are taken, or as far as was counted.
"""

import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import TopicPartition

from admin_api.reading.filters import Subject
from admin_api.reading.gather import Limits, gather
from admin_api.reading.plan import Spans
from admin_api.reading.schemas import Ending

COUNTED_MAX: Final = 10_000
WINDOW_MIN: Final = 100
"""Offsets that are looked at before those that were not enough, at least."""


@dataclass(frozen=True, slots=True)
class Lookback:
    """How many records of each partition, and where the logs begin."""

    records: int
    firsts: Mapping[int, int]

    def is_counted(self, spans: Spans) -> bool:
        """Whether the records of these spans, each of so many offsets or of a whole
        log, are to be counted."""
        return 0 < self.records * len(spans) <= COUNTED_MAX

    def begin(
        self,
        consumer: Any,
        stop: threading.Event,
        topic: str,
        spans: Spans,
        time_ms: int,
        now_ms: Callable[[], int],
    ) -> Spans:
        """The same ends, from where so many records come before them; the consumer is
        assigned to that. Blocks. Raises as `gather` does."""
        deadline_ms = now_ms() + time_ms
        windows = {
            number: span
            for number, span in spans.items()
            if self.firsts[number] < span[0] < span[1]
        }
        starts = {number: start for number, (start, _) in spans.items()}
        counted = {number: deque[int](maxlen=self.records) for number in windows}
        while windows and now_ms() < deadline_ms and not stop.is_set():
            seen = self._seen(consumer, stop, topic, windows, deadline_ms, now_ms)
            for number, offsets in seen.items():
                offsets.extend(counted[number])
                counted[number], starts[number] = offsets, windows[number][0]
            windows = {
                number: self._before(number, starts[number], spans[number][1])
                for number in seen
                if len(counted[number]) < self.records
                and starts[number] > self.firsts[number]
            }
        for number, offsets in counted.items():
            if len(offsets) == self.records:
                starts[number] = offsets[0]
        begun = {number: (starts[number], end) for number, (_, end) in spans.items()}
        _assign(consumer, topic, begun)
        return begun

    def _seen(
        self,
        consumer: Any,
        stop: threading.Event,
        topic: str,
        windows: Spans,
        deadline_ms: int,
        now_ms: Callable[[], int],
    ) -> dict[int, deque[int]]:
        """The last offsets with a record, of each window that was read to its end."""
        seen = {number: deque[int](maxlen=self.records) for number in windows}

        def note(subject: Subject) -> bool:
            seen[subject.partition].append(subject.offset)
            return False

        _assign(consumer, topic, windows)
        limits = Limits(1, 1, max(1, deadline_ms - now_ms()))
        found = gather(consumer, stop, topic, windows, limits, note, now_ms)
        if found.ended_by != Ending.END:
            ends = {number: end for number, (_, end) in windows.items()}
            whole = (n for n, at in found.positions.items() if at >= ends[n])
            return {number: seen[number] for number in whole}
        return seen

    def _before(self, number: int, start: int, end: int) -> tuple[int, int]:
        """The offsets before those of [start, end): twice as many."""
        width = max(WINDOW_MIN, 2 * (end - start))
        return max(self.firsts[number], start - width), start


def _assign(consumer: Any, topic: str, spans: Spans) -> None:
    """Let the consumer read from where these begin, but for what is empty."""
    consumer.assign(
        [
            TopicPartition(topic, number, start)
            for number, (start, end) in spans.items()
            if start < end
        ]
    )
