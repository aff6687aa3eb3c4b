"""Produces that have waited too long for the disk, and what may still wait for it.

The problem. A disk can hang: no error, no answer, for seconds or for ever. A produce
must then be told REQUEST_TIMED_OUT when its own time is over (it may become durable
later all the same, as in Kafka), and what producers send again must not fill the
memory. But a timer for each of fifty thousand produces a second, for a thing that
happens once a year, is not to be paid.

The idea. Batches are finished in the order in which they were appended, so one queue of
all that wait tells by its head whether anything moves at all. A look four times a
second compares the head with that of the last look. If it is another one, that was all.
If it is the same, the log stands still, and only then each batch in the queue is asked
for its time, which runs from the first look that found it there. While it stands still
for longer, the status says so. Beyond a limit of bytes that wait although their
producers were answered, new batches are refused. Those whose producers wait are counted
by the network, which reads no more of them then: a short stall makes clients wait, and
does not refuse what they then send again behind what they sent later.

The price. One append and one pop of a deque per batch; an answer that is late by up to
half a second.
"""

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, Protocol

from broker.clock import Clock
from broker.protocol.errors import ErrorCode, KafkaError
from broker.storage.entry import Append
from broker.storage.wal import Wal
from broker.timing.delayed import TimerHandle, Timers

LOOK_MS: Final = 250
STALLED_MS: Final = 5_000
"""So long must nothing have moved before the status calls it a problem."""
WAITING_BYTES: Final = 1 << 10
"""What a batch takes that waits, beside its own bytes."""
BATCHES_A_TURN: Final = 2_000
"""So many are asked in one turn of the loop: a hundred thousand may wait."""
NO_TIMEOUT: Final = 1 << 62

Reply = Callable[[int, int, KafkaError | None], None]


class Owner(Protocol):
    """The partition of a batch."""

    def expire_retries(self, now_ms: int) -> None:
        """Answer the retries whose time is over, as `Waiting.expire` does."""


class Waiting(Append):
    """A batch on its way to the disk, and who waits how long to hear of it.

    ``expires_ms`` is on the monotonic clock; -1 until a look has found the batch.
    """

    __slots__ = ("expires_ms", "owner", "reply", "timeout_ms")

    owner: Owner
    reply: Reply
    timeout_ms: int
    expires_ms: int

    @property
    def is_answered(self) -> bool:
        """Whether nobody waits for it any more."""
        return self.reply is no_reply

    def expire(self, now_ms: int) -> None:
        """Answer if its time is over; what becomes of it is told nobody then."""
        if self.expires_ms < 0:
            self.expires_ms = now_ms + self.timeout_ms
        elif self.expires_ms <= now_ms:
            reply, self.reply = self.reply, no_reply
            self.expires_ms = NO_TIMEOUT
            reply(-1, -1, timed_out())


def no_reply(_base: int, _stamp_ms: int, _error: KafkaError | None) -> None:
    """Nothing is done: whoever asked has been answered already."""


def timed_out() -> KafkaError:
    return KafkaError(
        ErrorCode.REQUEST_TIMED_OUT,
        "the disk has not answered in time; the batch may become durable later",
    )


class Overdue:
    """``queue``: what was appended and is not finished; partitions keep it."""

    def __init__(self, wal: Wal, clock: Clock, waiting_bytes_max: int) -> None:
        self.queue: deque[Waiting] = deque()
        self._wal = wal
        self._clock = clock
        self._waiting_bytes_max = waiting_bytes_max
        self._head: Waiting | None = None
        self._head_since_ms = 0
        self._timer: TimerHandle | None = None
        self._timers: Timers | None = None
        self._is_asking = False

    def start(self, timers: Timers) -> None:
        """Look for overdue batches from now on, until closed."""
        self._timers = timers

        def look() -> None:
            self._timer = timers.after(LOOK_MS, look)
            self.look()

        self._timer = timers.after(LOOK_MS, look)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def look(self) -> None:
        """Answer what is overdue, if nothing has moved since the last look."""
        self._wal.look_at_space()
        now_ms = self._clock.monotonic_ms()
        head = self.queue[0] if self.queue else None
        if head is None or head is not self._head:
            self._head, self._head_since_ms = head, now_ms
            self._wal.stalled = self._wal.overfull = None
            return
        if not self._is_asking:
            self._is_asking = True
            self._go_on(self._ask_all(now_ms))

    def _go_on(self, steps: Iterator[None]) -> None:
        """Do what fits into a turn of the loop, and the rest in the next ones."""
        for _ in steps:
            if self._timers is not None:
                self._timers.after(0, partial(self._go_on, steps))
                return
        self._is_asking = False

    def _ask_all(self, now_ms: int) -> Iterator[None]:
        """Ask each batch that waits for its time; yields now and then."""
        owners: dict[int, Owner] = {}
        waiting_bytes = 0
        for count, one in enumerate(list(self.queue), 1):  # an answer may bring more
            if one.location < 0 and one.error is None:  # else it is finished meanwhile
                one.expire(now_ms)
                owners[id(one.owner)] = one.owner
                if one.is_answered:
                    waiting_bytes += len(one.batch) + WAITING_BYTES
            if count % BATCHES_A_TURN == 0:
                yield
        for count, owner in enumerate(owners.values(), 1):
            owner.expire_retries(now_ms)
            if count % BATCHES_A_TURN == 0:
                yield
        if self.queue and self.queue[0] is self._head:
            self._report(now_ms - self._head_since_ms, waiting_bytes)

    def _report(self, stalled_ms: int, waiting_bytes: int) -> None:
        if stalled_ms >= STALLED_MS:
            seconds = stalled_ms // 1000
            self._wal.stalled = f"the disk has not answered for {seconds} s"
        if waiting_bytes > self._waiting_bytes_max:
            self._wal.overfull = KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"{waiting_bytes} bytes wait already for a disk that does not answer",
            )
