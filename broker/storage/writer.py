"""The writer: one thread that turns what waits into groups, and groups into promises.

The problem. Each acknowledgement waits for a sync, and a hop between threads can cost
more than the sync. So: as few hops as possible, and as many batches per sync as there
are waiting.

The idea. The loop puts batches into a queue; a put wakes the writer only if it sleeps.
While several come at a time, they are put there together at the end of the loop's turn:
else the writer would wake for the first, and compute beside the loop for one batch.
The writer takes all that waits (up to a bound, so that nobody waits for a huge write),
makes it durable, and hands the whole group back by one call on the loop. While it
syncs, the next group gathers.

Failure. A write or sync that fails leaves the file in a state that nobody knows (after
a failed fsync the kernel may call the lost pages clean), so nothing is tried again:
these batches, all that wait and all that come are refused, and `failed` says why until
the broker is started anew, which finds out by reading what is there. Only a lack of
space for a *new* segment is recovered from, since then nothing was written.

A refused batch takes with it those of the same producer that follow it unknowing: they
were admitted before the loop heard of the refusal, and written they would stand where
their predecessor is missing. Behind the refusal the loop puts a mark into the queue;
what comes after that mark was admitted by who knew.
"""

from collections import Counter, deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog

from broker.failpoints import passing
from broker.ids import TopicNumber
from broker.protocol.errors import ErrorCode, KafkaError
from broker.status.histogram import SIZES, Histogram, HistogramState, merged
from broker.storage.appender import SegmentAppender
from broker.storage.columns import Rows, rows_of
from broker.storage.entry import Append, position_of, sequence_of
from broker.storage.pool import NoSlot
from broker.threads import SYSTEM_THREADS, Queue, Threads

if TYPE_CHECKING:  # what it imports takes half a second, and is warmed after the start
    from broker.storage.lane import Bounds, Lane

GROUP_BYTES_MAX: Final = 8 << 20
GATHERED_BYTES_MAX: Final = 256 << 10
ANY_NUMBER: Final = 1 << 30
COMPLETED_A_TURN: Final = 1_000
"""So many batches are completed in one turn of the loop: some microseconds each."""

CallSoon = Callable[[Callable[[], None]], None]
Inspect = Callable[[Append], None]
Action = Callable[[], None]
ProducerKey = tuple[int, int, int]
"""Topic number, partition, producer id: batches that follow each other."""

log = structlog.get_logger("lakelog.storage")


class Writer:
    """Owns the appender. `append` and `call` may be used by any one thread."""

    def __init__(
        self,
        appender: SegmentAppender,
        *,
        segment_bytes: int,
        call_soon: CallSoon,
        inspect: Inspect | None,
        next_turn: CallSoon | None = None,
        threads: Threads = SYSTEM_THREADS,
    ) -> None:
        self._appender = appender
        self._segment_bytes = segment_bytes
        self._call_soon = call_soon
        self._inspect = inspect
        self._next_turn = next_turn
        self._queue: Queue[list[Append] | Append | Action] = threads.queue()
        self._lane: Lane | None = None  # the loop's side of it
        self._served: Lane | None = None  # the writer's thread's side of it
        self._bounds: Callable[[TopicNumber], Bounds] | None = None
        self._bounds_now: dict[TopicNumber, Bounds] = {}
        self._queued = 0  # what waits in the queue, once there is a lane
        self._unannounced = self._unannounced_bytes = 0
        self._gathered: list[Append] = []
        self._gathered_bytes = 0
        self._several = False  # batches came in the last group
        self._late: deque[Append] = deque()  # durable or refused, to be completed yet
        self._thread = threads.thread("wal-writer", self._run)
        self._broken: Counter[ProducerKey] = (
            Counter()
        )  # refusals that the loop knows not of
        self.groups = Histogram(SIZES)
        """How many batches were handed back together."""
        self.failed: KafkaError | None = None
        self.finished = appender.position()
        """What lies before this (sequence, position) was handed back to the loop."""
        self.append: Callable[[Append], None] = (
            self._queue.put if next_turn is None else self._gather
        )

    def accelerate(
        self, lane: "Lane", bounds: "Callable[[TopicNumber], Bounds]"
    ) -> None:
        """Let ordinary batches go through the lane from now on.

        ``bounds`` says what a topic, by number, asks of its records: what ``inspect``
        would refuse must be outside of it. The loop calls `complete` when ``lane.out``
        is readable.
        """
        self._hand_over()
        self._lane, self._bounds = lane, bounds
        self.append = self._append

        def switch() -> None:
            self._served = lane

        self._queued = 1
        self._queue.put(switch)

    def complete(self) -> None:
        """On the loop: finish what came out of the lane."""
        lane = self._lane
        if lane is not None and (group := lane.take()):
            self._appender.touch()
            self._hand_back(group)

    def pending(self) -> tuple[int, Rows]:
        """The segment that is written without Python, 0 if there is none, and the rows
        of batches that are durable in it and that it does not know of yet. Any thread.
        """
        lane = self._lane
        return (0, rows_of(b"")) if lane is None else lane.pending()

    def sync_times(self) -> HistogramState:
        """How long the syncs of groups took. Any thread."""
        lane, own = self._lane, self._appender.syncs.state()
        return own if lane is None else merged(own, lane.sync_times())

    def start(self) -> None:
        self._thread.start()

    def call(self, action: Action) -> None:
        """Run this on the writer's thread when all that waits now is durable."""
        self._hand_over()
        self._put(action)

    def stop(self) -> None:
        """Finish what waits, then end; returns when the thread has ended."""
        self.call(_stop)
        self._thread.join()
        self._next_turn = None  # there may be none: what comes is completed at once
        self.complete()
        while self._late:
            self._complete_late()

    def fail(self, why: str) -> None:
        """Refuse everything from now on."""
        if self.failed is None:
            self.failed = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, why)
            log.error("the log takes no more writes", reason=why)

    def _append(self, append: Append) -> None:
        """Through the lane if it is free and the batch ordinary."""
        lane, number = self._lane, append.topic_number
        assert lane is not None
        bounds = self._bounds_now.get(number) or self._look_up_bounds(number)
        if self._queued or self._gathered or not lane.put(append, bounds):
            self._announce()
            self._gather(append)
            return
        if not self._several or self._next_turn is None:
            self._bounds_now.clear()
            lane.announce(1)
            return
        if not self._unannounced:
            self._next_turn(self._announce)
        self._unannounced += 1
        self._unannounced_bytes += len(append.batch)
        if self._unannounced_bytes >= GATHERED_BYTES_MAX:
            self._announce()

    def _look_up_bounds(self, topic_number: TopicNumber) -> "Bounds":
        """What a topic asks; it holds for what is announced together."""
        assert self._bounds is not None
        bounds = self._bounds_now[topic_number] = self._bounds(topic_number)
        return bounds

    def _announce(self) -> None:
        self._bounds_now.clear()
        if self._unannounced and self._lane is not None:
            count, self._unannounced, self._unannounced_bytes = self._unannounced, 0, 0
            self._lane.announce(count)

    def _put(self, item: list[Append] | Append | Action) -> None:
        """Queue something; behind all that was put into the lane."""
        self._queue.put(item)
        if self._lane is not None:
            self._announce()
            self._queued += 1
            self._lane.call()

    def _gather(self, append: Append) -> None:
        gathered = self._gathered
        if not gathered:
            if not self._several or self._next_turn is None:
                self._put(append)
                return
            self._next_turn(self._hand_over)
        gathered.append(append)
        self._gathered_bytes += len(append.batch)
        if self._gathered_bytes >= GATHERED_BYTES_MAX:
            self._hand_over()

    def _hand_over(self) -> None:
        if self._gathered:
            gathered, self._gathered = self._gathered, []
            self._gathered_bytes = 0
            self._put(gathered)

    def _run(self) -> None:
        while self._served is None:
            if self._step(ANY_NUMBER) < 0:
                return
        while True:
            calls = self._serve(self._served)
            while calls:
                taken = self._step(calls)
                if taken < 0:
                    return
                calls -= taken

    def _step(self, items_max: int) -> int:
        """Work off some of the queue; returns how many items, -1 at the end."""
        group, action, items = self._collect(items_max)
        if group:
            self._commit(group, items - (action is not None))
        del group  # nothing here keeps the batches' memory while it waits
        if action is _stop:
            return -1
        if action is not None:
            self._guarded(action)
            if self._served is not None:
                self._guarded(lambda: self._call_soon(lambda: self._returned(1)))
        return items

    def _serve(self, lane: "Lane") -> int:
        """Let the lane work; do what it cannot. Returns how many items to take."""
        while True:
            self._guarded(self._serve_once)
            group = lane.waiting()
            if not group:
                return lane.calls()
            self._commit(group, 0, lane)

    def _serve_once(self) -> None:
        assert self._served is not None
        self._served.serve(usable=self.failed is None and not self._broken)

    def _returned(self, items: int) -> None:
        """On the loop: so many items of the queue are done with."""
        self._queued -= items

    def _collect(self, items_max: int) -> tuple[list[Append], Action | None, int]:
        """What waits, up to a bound or to an action, which is to follow."""
        queue = self._queue
        group: list[Append] = []
        size = items = 0
        while True:
            item = queue.get()
            items += 1
            if isinstance(item, Append):
                group.append(item)
                size += len(item.batch)
            elif isinstance(item, list):
                group += item
                size += sum(len(append.batch) for append in item)
            else:
                return group, item, items
            if size >= GROUP_BYTES_MAX or items == items_max or queue.empty():
                return group, None, items

    def _commit(
        self, group: list[Append], items: int, lane: "Lane | None" = None
    ) -> None:
        """Make the group durable or refused, and hand it back, by one call.

        What came through the lane goes back through it, in its order.
        """
        if self.failed is None:
            self._guarded(lambda: self._write(self._accepted(group)))
        if self.failed is not None:
            _refuse(group, self.failed)
        passing("wal.before_done")
        self._broken.update(_producer_keys(group))
        if lane is not None:
            lane.finished(len(group))
            return
        if self._served is None:
            items = 0  # nobody counts them
        self._guarded(partial(self._call_soon, partial(self._finish, group, items)))

    def _finish(self, group: list[Append], items: int) -> None:
        """On the loop: hear of a group from the queue, behind what the lane had."""
        self.complete()
        self._returned(items)
        self._hand_back(group)

    def _hand_back(self, group: list[Append]) -> None:
        """Complete a group now; as much of it as fits into this turn of the loop, and
        behind what waits for its turn."""
        waits, late = bool(self._late), self._late
        if not waits and (len(group) <= COMPLETED_A_TURN or self._next_turn is None):
            self._complete_group(group)
            return
        late.extend(group)
        if not waits:
            self._complete_late()

    def _complete_late(self) -> None:
        late = self._late
        some = [late.popleft() for _ in range(min(len(late), COMPLETED_A_TURN))]
        if late and self._next_turn is not None:
            self._next_turn(self._complete_late)
        if some:  # else all was completed at the end
            self._complete_group(some)

    def _complete_group(self, group: list[Append]) -> None:
        """Complete its appends; from now on the loop knows of what was refused."""
        self._several = len(group) > 1
        self.groups.add_size(len(group))
        refused = _finish(group)
        self.finished = _end_of(group) or self.finished
        if refused:
            broken = _producer_keys(group)
            self.call(lambda: self._mended(broken))

    def _mended(self, keys: list[ProducerKey]) -> None:
        for key in keys:
            self._broken[key] -= 1
            if not self._broken[key]:
                del self._broken[key]

    def _write(self, accepted: Sequence[Append]) -> None:
        commit = self._appender.commit
        done = 0
        try:
            while done < len(accepted):
                done = commit(accepted, done)
        except NoSlot as error:
            why = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
            _refuse(accepted[done:], why)

    def _accepted(self, group: list[Append]) -> list[Append]:
        """The batches that may be written; the others are refused."""
        inspect = self._inspect
        accepted = []
        broken = set(self._broken)
        for append in group:
            try:
                if broken and producer_key(append) in broken:
                    raise KafkaError(
                        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                        "the batch before this one was refused",
                    )
                self._check_size(append)
                if inspect is not None:
                    inspect(append)
                accepted.append(append)
            except KafkaError as error:
                append.error = error
                broken.update(_producer_keys([append]))
        return accepted

    def _check_size(self, append: Append) -> None:
        length = len(append.batch)
        if not self._appender.fits_a_segment(length, self._segment_bytes):
            raise KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"a batch of {length} bytes does not fit into a segment",
            )

    def _guarded(self, action: Action) -> None:
        """No exception ends the thread: whoever waits must be answered."""
        try:
            action()
        except NoSlot as error:
            log.warning("no segment file", reason=str(error))
        except OSError as error:
            self.fail(f"a write to the log failed: {error}")
        except Exception as error:
            log.exception("a fault in the log's writer")
            self.fail(f"a fault in the log's writer: {error!r}")


def _stop() -> None:
    """Marks the end in the writer's queue; nothing is behind it."""


def producer_key(append: Append) -> ProducerKey:
    """Whose batches, and where, this one follows."""
    return append.topic_number, append.partition, append.header.producer_id


def _producer_keys(group: Sequence[Append]) -> list[ProducerKey]:
    """The producer key of each refused batch of an idempotent producer."""
    return [
        producer_key(append)
        for append in group
        if append.error is not None and append.header.producer_id >= 0
    ]


def _refuse(group: Sequence[Append], error: KafkaError) -> None:
    """Only those that are not durable and not refused already."""
    for append in group:
        if append.location < 0 and append.error is None:
            append.error = error


def _end_of(group: list[Append]) -> tuple[int, int] | None:
    """Sequence and position behind the last durable one; None if there is none."""
    for append in reversed(group):
        if append.location >= 0:
            end = position_of(append.location) + len(append.batch)
            return sequence_of(append.location), end
    return None


def _finish(group: list[Append]) -> bool:
    """Call each one's ``done``; whether one was refused."""
    refused = False
    for append in group:
        if append.error is not None:
            refused = True
        try:
            append.done(append)
        except Exception:
            # The others of the group are durable and want to hear of it.
            log.exception("a fault in what was called back for an append")
    return refused
