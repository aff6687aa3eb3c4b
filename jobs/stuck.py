"""What cannot be compacted now, why, since when, and when to try again. Pure.

The problem: one damaged batch, or one change that an owner made to a table, must stop
that partition or topic and no other; it must be seen, and it must heal by itself when
the cause goes. The idea: failures are kept by what they stop, with pauses that double
while they repeat. A topic that loses one race against its owner's commit is only late;
from the second failure in a row on it is stuck. A pause ends early when the table has
moved since: its owner may have taken back what stopped us; and at once when somebody
asks for the topic. A failure keeps the newest request that was known when it was tried,
so whoever asks can tell an answer to the request from older news, by no clock.

A success clears what it concerns.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from broker.ids import PartitionNumber, TopicNumber, TopicPartition
from broker.status.schema import way_out

PAUSE_MIN_MS: Final = 1_000
PAUSE_MAX_MS: Final = 60_000
MOVED_PAUSE_MS: Final = 4_000
"""The longest pause of a topic whose table's log has moved since the last try."""
WHOLE_TOPIC: Final = PartitionNumber(-1)
"""As a partition: all of the topic."""


_OPEN: Final = (
    "A transaction is open before that: wait until its producer has ended it, or it "
    "timed out, or its records go with it. "
)


class Stop(NamedTuple):
    """What stops a partition, in words; what lies below ``end`` may be given up, if
    anything may; ``is_open``: that is of a transaction whose marker may yet come;
    ``put_back``: what may be."""

    what: str
    end: int | None = None
    is_open: bool = False
    put_back: str = ""

    def before_open(self, end: int | None) -> "Stop":
        """The same, behind a transaction that is open, whose first batch ends there;
        None: none is."""
        if end is None or self.end is None:
            return self
        return self._replace(end=end, is_open=True)

    def reason(self, log_start: int, *, is_next: bool) -> str:
        """In words, with the way out once nothing that is whole and decided lies before
        it and is not in the table (``is_next``); if the log begins behind that, it is
        taken."""
        if self.end is None or self.end <= log_start or not is_next:
            return self.what
        first = _OPEN if self.is_open else ""
        return f"{self.what}. {first}{way_out(self.end, self.put_back)}"


@dataclass(frozen=True, slots=True)
class Failure:
    """What stopped a partition (or a whole topic), ``times`` in a row."""

    why: str
    since_ms: int
    retry_ms: int
    times: int = 1
    certain: bool = False
    failed_ms: int = 0
    """When it was tried last."""
    request_id: int = 0
    """The newest request that was known when it was tried last."""

    @property
    def is_stuck(self) -> bool:
        """Whether this is more than a lost race."""
        return self.certain or self.times > 1


class Stuck:
    """Failures by partition, or by topic under `WHOLE_TOPIC`."""

    def __init__(self) -> None:
        self._failures: dict[TopicPartition, Failure] = {}
        self._held: dict[TopicPartition, Failure] = {}

    def fail(
        self,
        key: TopicPartition,
        why: str,
        now_ms: int,
        *,
        certain: bool = False,
        request_id: int = 0,
    ) -> Failure:
        """Remember a failure; tried again after a pause that doubles.

        A ``certain`` one (damage) is stuck at once, and tried again each minute.
        """
        before = self._failures.get(key)
        times = before.times + 1 if before else 1
        pause_ms = min(PAUSE_MIN_MS << min(times - 1, 16), PAUSE_MAX_MS)
        failure = Failure(
            why,
            before.since_ms if before else now_ms,
            now_ms + (PAUSE_MAX_MS if certain else pause_ms),
            times,
            certain,
            now_ms,
            request_id,
        )
        self._failures[key] = failure
        return failure

    def clear(
        self, number: TopicNumber, partition: PartitionNumber = WHOLE_TOPIC
    ) -> None:
        """Forget what stopped a partition, or the topic as a whole."""
        self._failures.pop((number, partition), None)

    def hold(
        self, held: Mapping[TopicPartition, str], now_ms: int, *, request_id: int = 0
    ) -> None:
        """Take ``held`` as all partitions that stop before damage, and why.

        What lies before the damage goes on: they are not paused.
        """
        self._held = {
            key: replace(
                self._held.get(key) or Failure(why, now_ms, now_ms, certain=True),
                why=why,  # it may stop at another place now
                request_id=request_id,
            )
            for key, why in held.items()
        }

    def keep(
        self, waiting: Collection[TopicPartition], unreadable: Collection[TopicNumber]
    ) -> None:
        """Forget what stopped partitions and topics for which nothing waits now."""
        topics = {key[0] for key in waiting} | set(unreadable)
        for key in list(self._failures):
            number, partition = key
            if key not in waiting and not (
                partition == WHOLE_TOPIC and number in topics
            ):
                del self._failures[key]

    def may_try(self, key: TopicPartition, now_ms: int) -> bool:
        """Whether neither the partition nor its topic is paused."""
        return all(
            failure is None or failure.retry_ms <= now_ms
            for failure in (
                self._failures.get(key),
                self._failures.get((key[0], WHOLE_TOPIC)),
            )
        )

    def paused(self, now_ms: int) -> Iterator[TopicNumber]:
        """The topics that are not tried now as a whole."""
        for (number, partition), failure in self._failures.items():
            if partition == WHOLE_TOPIC and now_ms < failure.retry_ms:
                yield number

    def moved(self, number: TopicNumber) -> None:
        """The log of the topic's table has moved since it was tried: try it soon."""
        key = number, WHOLE_TOPIC
        failure = self._failures.get(key)
        if failure is not None:
            soon_ms = min(failure.retry_ms, failure.failed_ms + MOVED_PAUSE_MS)
            self._failures[key] = replace(failure, retry_ms=soon_ms)

    def end_pauses(self, number: TopicNumber, now_ms: int) -> None:
        """Try a topic and its partitions again now."""
        for key, failure in self._failures.items():
            if key[0] == number and now_ms < failure.retry_ms:
                self._failures[key] = replace(failure, retry_ms=now_ms)

    def failed(self, key: TopicPartition) -> TopicPartition | None:
        """What failed last time: the partition's topic, itself, or nothing."""
        whole = key[0], WHOLE_TOPIC
        if whole in self._failures:
            return whole
        return key if key in self._failures else None

    def stuck(self) -> Iterator[tuple[TopicPartition, Failure]]:
        """What is stuck, whole topics under `WHOLE_TOPIC`."""
        for key, failure in (self._held | self._failures).items():
            if failure.is_stuck:
                yield key, failure
