"""The markers that a transaction owes: one append for each of its partitions.

The problem. What is decided must come to be in every partition and for every group of
the transaction, whatever fails in between, and a thousand appends at once would hold
the loop. The idea: a *round* asks some in each turn; what succeeded is crossed out, and
what did not is asked for again after a while, by a round of what is left. A marker that
is written twice ends nothing twice, and so does the end of a group's pending offsets.
Only who knows that all is durable hears of it: a marker is synced before it is
acknowledged, in the relaxed mode (``wal.sync=interval``) as well.

A marker may be lost after its transaction is over: damaged behind the checkpoint. Then
a start finds the transaction open where it was a part (``lacking``), and the producer's
next marker would decide it. So the first is written again, before anything else is.

A partition that is gone has no records left to decide about; one that waits for its
table after a start has, and so has its marker to wait. One in which a newer epoch
of the producer has written has been decided already.
"""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, Protocol

import structlog

from broker.clock import Clock
from broker.ids import PartitionNumber, TopicNumber, TopicPartition
from broker.protocol.errors import ErrorCode, KafkaError
from broker.records.markers import Marker
from broker.runtime.coordination.coordinator_offsets import CommittedOffsets
from broker.runtime.partitions.partition import Partition
from broker.timing.delayed import TimerHandle, Timers
from broker.transactions.commands import Owed
from broker.transactions.metadata import V2

PART: Final = 100
"""Appends in one turn of the loop; some ten microseconds each."""
RETRY_MS: Final = 500

_NOTHING_LEFT: Final = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.INVALID_PRODUCER_EPOCH,
)
_AWAITED: Final = KafkaError(
    ErrorCode.KAFKA_STORAGE_ERROR, "a partition waits for its table"
)

log = structlog.get_logger("lakelog.transactions")


class Logs(Protocol):
    """What is asked of the partitions: one of them; whether it will be there later."""

    def get(
        self, number: TopicNumber, index: PartitionNumber, /
    ) -> Partition | None: ...

    def is_awaited(self, number: TopicNumber, index: PartitionNumber, /) -> bool: ...


class Markers:
    """Writes what is owed. For the event loop's thread."""

    def __init__(
        self, logs: Logs, offsets: CommittedOffsets, timers: Timers, clock: Clock
    ) -> None:
        self._logs = logs
        self._offsets = offsets
        self._timers = timers
        self._clock = clock
        self._retries: set[TimerHandle] = set()
        self._closed = False

    def write(self, owed: Owed, done: Callable[[], None]) -> None:
        """Have every marker written; ``done`` is called later, once all are durable."""
        _Round(self, owed, done).begin()

    def lacking(self, owed: Owed) -> frozenset[TopicPartition]:
        """The partitions in which the transaction is open still: of one that is over,
        those whose marker is lost."""
        return frozenset(key for key in owed.partitions if self._lacks(owed, key))

    def _lacks(self, owed: Owed, key: TopicPartition) -> bool:
        found = self._logs.get(*key)
        since = None if found is None else found.log.open_since(owed.producer_id)
        if since is None:
            return False
        first, epoch = since
        # Of any other epoch it is another transaction, whose end may be another; so it
        # is if it was open before the partition became part of this one.
        is_bumped = owed.version >= V2 or owed.fences
        is_later = first >= dict(owed.starts).get(key, first)
        return is_later and epoch == owed.producer_epoch - is_bumped

    def ends(
        self, partitions: frozenset[TopicPartition]
    ) -> Iterator[tuple[TopicPartition, int]]:
        """Where partitions end now: what is written to them from now on is above."""
        for key in partitions:
            found = self._logs.get(*key)
            if found is not None:
                yield key, found.log.durable

    def close(self) -> None:
        """Ask for nothing more; a start owes what is left."""
        self._closed = True
        for retry in self._retries:
            retry.cancel()
        self._retries.clear()

    # -- for a round ------------------------------------------------------------------

    @property
    def is_closed(self) -> bool:
        return self._closed

    def end_in_partition(
        self,
        owed: Owed,
        key: TopicPartition,
        start: int | None,
        ended: Callable[[Exception | None], None],
    ) -> None:
        """Append the marker to a partition; ``ended`` may be called at once. ``start``:
        of ``owed``, where that partition has one."""
        found = self._logs.get(*key)
        if found is None:
            ended(_AWAITED if self._logs.is_awaited(*key) else None)
            return

        def reply(_base: int, _stamp: int, error: KafkaError | None) -> None:
            if error is not None and error.code in _NOTHING_LEFT:
                log.warning("a partition needs no marker", key=key, why=str(error))
                error = None
            ended(error)

        found.append_marker(
            owed.producer_id,
            owed.producer_epoch,
            Marker(owed.commit),
            self._clock.now_ms(),
            reply,
            bumps=owed.version >= V2,
            start=start,
        )

    def end_in_group(
        self, owed: Owed, group_id: str, ended: Callable[[Exception | None], None]
    ) -> None:
        """Decide about the offsets that are pending in a group."""
        done = self._offsets.end_pending(
            group_id, owed.producer_id, commits=owed.commit
        )
        done.add_done_callback(partial(_hear, ended))

    def again(self, callback: Callable[[], None]) -> None:
        """Call back after a while."""

        def fire() -> None:
            self._retries.discard(retry)
            callback()

        retry = self._timers.after(RETRY_MS, fire)
        self._retries.add(retry)


class _Round:
    """What is left of one transaction's markers."""

    def __init__(self, markers: Markers, owed: Owed, done: Callable[[], None]) -> None:
        self._markers = markers
        self._owed = owed
        self._starts = dict(owed.starts)
        self._done = done
        self._left: set[TopicPartition | str] = {*owed.partitions, *owed.groups}
        self._unasked: list[TopicPartition | str] = []
        self._waits = 0
        self._error: Exception | None = None

    def begin(self) -> None:
        """Ask for all that is left, from the next turn of the loop on."""
        self._unasked, self._error = sorted(self._left, key=str), None
        asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        if self._markers.is_closed:
            return
        asked, self._unasked = self._unasked[:PART], self._unasked[PART:]
        self._waits += len(asked) + 1
        for part in asked:
            ended = partial(self._ended, part)
            if isinstance(part, str):
                self._markers.end_in_group(self._owed, part, ended)
            else:
                start = self._starts.get(part)
                self._markers.end_in_partition(self._owed, part, start, ended)
        if self._unasked:
            asyncio.get_running_loop().call_soon(self._go_on)
        self._heard()

    def _ended(self, part: TopicPartition | str, error: Exception | None) -> None:
        if error is None:
            self._left.discard(part)
        else:
            self._error = error
        self._heard()

    def _heard(self) -> None:
        self._waits -= 1
        if self._waits or self._unasked or self._markers.is_closed:
            return
        if self._left:
            log.error(
                "markers could not be written", left=len(self._left),
                why=str(self._error),
            )  # fmt: skip
            self._markers.again(self.begin)
        else:
            self._done()


def _hear(
    ended: Callable[[Exception | None], None], done: "asyncio.Future[object]"
) -> None:
    if not done.cancelled():
        error = done.exception()
        assert error is None or isinstance(error, Exception)
        ended(error)
