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

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Final

import structlog

from broker.failpoints import passing
from broker.protocol.errors import ErrorCode, KafkaError
from broker.storage.entry import Append
from broker.storage.journal import Journal
from broker.storage.pool import NoSlot

GROUP_BYTES_MAX: Final = 8 << 20
GATHERED_BYTES_MAX: Final = 256 << 10

CallSoon = Callable[[Callable[[], None]], None]
Inspect = Callable[[Append], None]
Action = Callable[[], None]
Line = tuple[int, int, int]
"""Topic number, partition, producer id: batches that follow each other."""

log = structlog.get_logger("broker.storage")


class Writer:
    """Owns the journal. `append` and `call` may be used by any one thread."""

    def __init__(
        self,
        journal: Journal,
        *,
        segment_bytes: int,
        call_soon: CallSoon,
        inspect: Inspect | None,
        next_turn: CallSoon | None = None,
    ) -> None:
        self._journal = journal
        self._segment_bytes = segment_bytes
        self._call_soon = call_soon
        self._inspect = inspect
        self._next_turn = next_turn
        self._queue: SimpleQueue[list[Append] | Append | Action] = SimpleQueue()
        self._gathered: list[Append] = []
        self._gathered_bytes = 0
        self._several = False  # batches came in the last group
        self._thread = threading.Thread(target=self._run, name="wal-writer")
        self._thread.daemon = True
        self._broken: Counter[Line] = Counter()  # refusals that the loop knows not of
        self.failed: KafkaError | None = None
        self.append: Callable[[Append], None] = (
            self._queue.put if next_turn is None else self._gather
        )

    def start(self) -> None:
        self._thread.start()

    def call(self, action: Action) -> None:
        """Run this on the writer's thread when all that waits now is durable."""
        self._hand_over()
        self._queue.put(action)

    def stop(self) -> None:
        """Finish what waits, then end; returns when the thread has ended."""
        self.call(_stop)
        self._thread.join()

    def fail(self, why: str) -> None:
        """Refuse everything from now on."""
        if self.failed is None:
            self.failed = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, why)
            log.error("the log takes no more writes", reason=why)

    def _gather(self, append: Append) -> None:
        gathered = self._gathered
        if not gathered:
            if not self._several or self._next_turn is None:
                self._queue.put(append)
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
            self._queue.put(gathered)

    def _run(self) -> None:
        while True:
            group, action = self._collect()
            if group:
                self._commit(group)
            group = []  # nothing here keeps the batches' memory while it waits
            if action is _stop:
                return
            if action is not None:
                self._guarded(action)

    def _collect(self) -> tuple[list[Append], Action | None]:
        """All that waits, up to a bound or to an action, which is to follow."""
        queue = self._queue
        group: list[Append] = []
        size = 0
        while True:
            item = queue.get()
            if isinstance(item, Append):
                group.append(item)
                size += len(item.batch)
            elif isinstance(item, list):
                group += item
                size += sum(len(append.batch) for append in item)
            else:
                return group, item
            if size >= GROUP_BYTES_MAX or queue.empty():
                return group, None

    def _commit(self, group: list[Append]) -> None:
        """Make the group durable or refused, and hand it back, by one call."""
        if self.failed is None:
            self._guarded(lambda: self._write(self._accepted(group)))
        if self.failed is not None:
            _refuse(group, self.failed)
        passing("wal.before_done")
        broken = _lines_of(group)
        self._broken.update(broken)
        self._guarded(lambda: self._call_soon(lambda: self._finish(group, broken)))

    def _finish(self, group: list[Append], broken: set[Line]) -> None:
        """On the loop: tell everybody; from now on it knows of what was refused."""
        self._several = len(group) > 1
        _finish(group)
        if broken:
            self.call(lambda: self._mended(broken))

    def _mended(self, lines: set[Line]) -> None:
        for line in lines:
            self._broken[line] -= 1
            if not self._broken[line]:
                del self._broken[line]

    def _write(self, accepted: Sequence[Append]) -> None:
        commit = self._journal.commit
        done = 0
        try:
            while done < len(accepted):
                done = commit(accepted, done)
        except NoSlot as error:
            why = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
            _refuse(accepted[done:], why)

    def _accepted(self, group: list[Append]) -> list[Append]:
        """What may be written; the others know why not."""
        inspect = self._inspect
        accepted = []
        broken = set(self._broken)
        for append in group:
            try:
                if broken and line_of(append) in broken:
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
                broken |= _lines_of([append])
        return accepted

    def _check_size(self, append: Append) -> None:
        length = len(append.batch)
        if not self._journal.fits_a_segment(length, self._segment_bytes):
            raise KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"a batch of {length} bytes does not fit into a segment",
            )

    def _guarded(self, action: Action) -> None:
        """No exception ends the thread: whoever waits must be told."""
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
    """What ends the writer's thread."""


def line_of(append: Append) -> Line:
    """Whose batches, and where, this one follows."""
    return append.topic_number, append.partition, append.header.producer_id


def _lines_of(group: Sequence[Append]) -> set[Line]:
    """The lines of idempotent producers in which something was refused."""
    return {
        line_of(append)
        for append in group
        if append.error is not None and append.header.producer_id >= 0
    }


def _refuse(group: Sequence[Append], error: KafkaError) -> None:
    """Only those that are not durable and not refused already."""
    for append in group:
        if append.location < 0 and append.error is None:
            append.error = error


def _finish(group: list[Append]) -> None:
    for append in group:
        try:
            append.done(append)
        except Exception:
            # The others of the group are durable and want to hear of it.
            log.exception("a fault in what was told of an append")
