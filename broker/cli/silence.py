"""What ``lakelog consume`` says while nothing comes although it is not at the end.

The problem: for records of a table that it cannot read the broker answers with
KAFKA_STORAGE_ERROR, which librdkafka repeats in silence, as for a disk that comes back.
The idea: a partition that is not at its end, and of which nothing came for some
seconds, is asked for by a Fetch of our own, and the name of what the broker answers is
said: once, until something comes from there.

A Fetch is answered with a whole batch, however little it asks for. Of one that is large
or whose line is slow nothing may come for long: the length of the answer says that it
is on its way, and no more of it is read.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

import typer
from confluent_kafka import KafkaException

from broker.cli.client import TIMEOUT_S, admin
from broker.cli.failures import UserError
from broker.cli.wire import AnswerTooLong, Wire, error_name
from broker.clock import Clock, SystemClock
from broker.protocol.errors import ErrorCode
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic

SAID_AFTER_MS: Final = 5_000
LONG_MS: Final = 30_000
CONFIG: Final = {"statistics.interval.ms": 1_000}
"""Nothing else tells which offset librdkafka asks for."""
NAMED_UP_TO: Final = 12
"""Versions of Fetch behind it know topics by their ids."""
ERROR_BYTES_MAX: Final = 512
"""What an answer about one partition takes that is an error and no records."""
AGAIN_MS: Final = 20_000
"""When to ask again what the broker gives: each time it sends some that nobody reads.
Before it is long."""
ASKING_MS: Final = 3_000
"""The records of others wait meanwhile."""


class Silence:
    """How long nothing came, and what was said of it."""

    def __init__(self, bootstrap: str, topic: str, clock: Clock | None = None) -> None:
        self._bootstrap, self._topic = bootstrap, topic
        self._clock = clock or SystemClock()
        self._since_ms: dict[int, int] = {}
        self._asked: set[int] = set()
        self._on_their_way: set[int] = set()
        self._offsets: dict[int, int] = {}
        self.is_long = False
        """Whether to wait on makes no sense for who wants to be told the end."""

    def hear(self, statistics: str) -> None:
        """Take in librdkafka's statistics: which offsets it asks for. One that moves is
        no silence, though nothing comes: it may pass over what was aborted."""
        topic = json.loads(statistics)["topics"].get(self._topic, {})
        found = {
            int(number): part["next_offset"]
            for number, part in topic.get("partitions", {}).items()
        }
        self.end(n for n, at in found.items() if self._offsets.get(n, at) != at)
        self._offsets = found

    def end(self, partitions: Iterable[int]) -> None:
        """Something came, from these partitions."""
        for number in partitions:
            self._since_ms.pop(number, None)
            self._asked.discard(number)
            self._on_their_way.discard(number)
            self.is_long = False

    def look(self, silent: Collection[int]) -> None:
        """All that had come was taken, and these partitions are not at their ends; may
        block."""
        now_ms = self._clock.monotonic_ms()
        self._since_ms = {n: self._since_ms.get(n, now_ms) for n in silent}
        late = {
            n for n, at in self._since_ms.items() if now_ms - at >= self._patience(n)
        }
        if new := sorted(late - self._asked):
            self._asked.update(new)
            self._say(new)
        lasts_ms = [now_ms - since_ms for since_ms in self._since_ms.values()]
        self.is_long = bool(lasts_ms) and min(lasts_ms) >= LONG_MS

    def check(self) -> None:
        """Raises UserError if it was long."""
        if self.is_long:
            names = ", ".join(map(str, sorted(self._asked)))
            raise UserError(
                f"not at the end: nothing came for {LONG_MS // 1000} s from {names} of "
                f"{self._topic}"
            )

    def _patience(self, number: int) -> int:
        return AGAIN_MS if number in self._on_their_way else SAID_AFTER_MS

    def _note_on_its_way(self, number: int) -> None:
        """It counts from now on, until which it was no silence; ask again."""
        self._since_ms[number] = self._clock.monotonic_ms()
        self._on_their_way.add(number)
        self._asked.discard(number)

    def _say(self, partitions: list[int]) -> None:
        offsets = {number: self._offsets.get(number, -1) for number in partitions}
        reasons = self._reasons({n: at for n, at in offsets.items() if at >= 0})
        for number, at in offsets.items():
            if at < 0:  # librdkafka asks for nothing yet
                typer.echo(
                    f"lakelog: partition {number} gives nothing; {self._advice()}",
                    err=True,
                )
            elif number in reasons:
                typer.echo(
                    f"lakelog: partition {number} gives nothing from offset {at} on"
                    f"{reasons[number]}",
                    err=True,
                )

    def _advice(self) -> str:
        return f"beside the broker `lakelog table {self._topic}` tells how its table is"

    def _reasons(self, offsets: Mapping[int, int]) -> dict[int, str]:
        """Partition -> why, of those of which somebody says it; and what to do, where
        a broker answers."""
        try:
            known = admin(self._bootstrap).list_topics(timeout=TIMEOUT_S)
            parts = known.topics[self._topic].partitions if offsets else {}
            by_leader: dict[int, dict[int, int]] = {}
            for number, at in offsets.items():
                by_leader.setdefault(parts[number].leader, {})[number] = at
            found: dict[int, str] = {}
            for leader, asked in by_leader.items():
                found |= self._refused(known.brokers[leader], asked)
        except KeyError:  # deleted, or without a leader for the moment
            return dict.fromkeys(offsets, ": no broker leads it")
        except (UserError, KafkaException, OSError) as error:
            return dict.fromkeys(offsets, f": {error}")
        return {n: f": {name}; {self._advice()}" for n, name in found.items()}

    def _refused(self, leader: Any, offsets: Mapping[int, int]) -> dict[int, str]:
        """Partition -> the error by which its leader refuses a Fetch. Behind records of
        one the errors of others are not read: each is asked for alone then."""
        try:
            return self._errors(leader, offsets)
        except AnswerTooLong:
            if len(offsets) == 1:
                self._note_on_its_way(*offsets)
                return {}
        until_ms = self._clock.monotonic_ms() + ASKING_MS
        found: dict[int, str] = {}
        for number, at in offsets.items():
            if self._clock.monotonic_ms() < until_ms:
                found |= self._refused(leader, {number: at})
            else:  # asked when those are asked again that are
                self._note_on_its_way(number)
        return found

    def _errors(self, leader: Any, offsets: Mapping[int, int]) -> dict[int, str]:
        """Raises AnswerTooLong where one of them gives records."""
        parts = [
            FetchPartition(number, fetch_offset=at, partition_max_bytes=1)
            for number, at in offsets.items()
        ]
        request = FetchRequest(
            max_bytes=1, isolation_level=1,
            topics=[FetchTopic(self._topic, partitions=parts)],
        )  # fmt: skip
        with Wire.open(f"{leader.host}:{leader.port}") as wire:
            answer = wire.ask(
                request, NAMED_UP_TO, longest=ERROR_BYTES_MAX * len(offsets)
            )
        return {
            one.partition_index: error_name(one.error_code)
            for topic in answer.responses
            for one in topic.partitions
            if one.error_code != ErrorCode.NONE
        }
