"""A hierarchical timing wheel: every timeout of the broker, in constant time.

The problem. A broker holds a hundred thousand timeouts, and nearly all of them are
cancelled or put off before they expire: a fetch is answered by an append, a session
lives on by a heartbeat. A heap pays O(log n) for each insert, and O(n) or a tombstone
for each cancel. What is wanted is O(1) for all, and nothing at all while nothing is
due.

The idea (Varghese and Lauck 1987; Kafka's ``TimingWheel.java``; the arithmetic is that
of tokio's timer). Write a deadline, counted in ticks, as a number with ``size`` as its
base. Compare it with the tick that the wheel has reached, ``elapsed``, and look at the
*highest digit in which they differ*: its position is the level, its value the slot.

    size 8, elapsed 0o123          deadline 0o125 -> level 0, slot 5
                                   deadline 0o127 -> level 0, slot 7
                                   deadline 0o130 -> level 1, slot 3
                                   deadline 0o477 -> level 2, slot 4

A slot of level 0 holds deadlines of one tick and is due as a whole. A slot of level n
covers ``size ** n`` ticks; when the wheel reaches its first tick, its timers are placed
again and, agreeing with ``elapsed`` in one digit more, land at least one level lower.
Levels are added as far deadlines ask for them: that is the overflow.

Two things follow, and make it simple. All timers of a level share every digit above
it with ``elapsed`` and are greater in their own, so slots never wrap around. And every
timer of a level is due before every timer of the level above. The earliest slot is
therefore the lowest set bit of the lowest level that is not empty, and one integer of
occupied bits for each level finds it without looking at a slot.

A timer that is put off stays in its slot and only gets another deadline: a session of
45 s whose member beats every 3 s is then moved once in 45 s and not with each beat.
When its slot comes down, or is due, it is placed anew.

Order. A slot is a dict, so it keeps the order of insertion, and a slot is emptied into
lower levels before anything can be inserted there directly. Timers of one tick expire
in the order in which they were added; one that was put off, anywhere among them.

The price. A timer is moved at most once for each level (a minute at 1 ms and size 64:
twice), and mostly never, since it is cancelled first. A deadline is rounded *up* to
a tick: nothing expires early, and with a tick of t anything may be t - 1 ms late.
``next_deadline`` is exact on level 0; above, it is the first tick of a slot, so that
whoever sleeps on it wakes up at most once for each level more than needed, and once
more for a slot whose timers were all put off.

Not thread-safe: it belongs to the event loop. It reads no clock: ``advance(now_ms)``
is all that it knows of time.
"""

from collections.abc import Callable

Bucket = dict["Timer", None]


class Timer:
    """One deadline and what to do then; made by ``TimingWheel.add``."""

    __slots__ = ("bucket", "callback", "deadline_ms", "level", "slot")

    def __init__(self, deadline_ms: int, callback: Callable[[], None]) -> None:
        self.deadline_ms = deadline_ms
        self.callback: Callable[[], None] | None = callback
        self.bucket: Bucket | None = None
        self.level = -1
        self.slot = 0

    @property
    def active(self) -> bool:
        """Neither fired nor cancelled."""
        return self.callback is not None

    def fire(self) -> None:
        """Run the callback, once; nothing if it ran or was cancelled meanwhile."""
        callback, self.callback = self.callback, None
        if callback is not None:
            callback()


class TimingWheel:
    """Timers by deadline. Milliseconds throughout, of any clock that only grows.

    ``tick_ms`` is the resolution, ``size`` the slots of a level (a power of two),
    ``start_ms`` the time from which the wheel counts.
    """

    __slots__ = (
        "_bits",
        "_count",
        "_elapsed",
        "_levels",
        "_occupied",
        "_overdue",
        "_size",
        "_start_ms",
        "_tick_ms",
    )

    def __init__(self, tick_ms: int = 1, size: int = 64, start_ms: int = 0) -> None:
        assert tick_ms >= 1
        assert size >= 2, "one slot orders nothing"
        assert size & (size - 1) == 0, "digits are cut by shifting"
        self._tick_ms = tick_ms
        self._size = size
        self._bits = size.bit_length() - 1
        self._start_ms = start_ms
        self._elapsed = 0
        self._count = 0
        self._overdue: Bucket = {}
        self._levels: list[list[Bucket]] = []
        self._occupied: list[int] = []

    def __len__(self) -> int:
        """Timers that wait."""
        return self._count

    def add(self, deadline_ms: int, callback: Callable[[], None]) -> Timer:
        """Ask for ``callback`` once ``deadline_ms`` is reached. O(1).

        A deadline that has passed is due at the next ``advance``.
        """
        timer = Timer(deadline_ms, callback)
        self._place(timer)
        self._count += 1
        return timer

    def cancel(self, timer: Timer) -> bool:
        """Forget a timer. O(1). False if it fired or was cancelled before.

        A timer that ``advance`` has handed out and that has not fired yet can still be
        cancelled: its ``fire`` then does nothing.
        """
        if timer.callback is None:
            return False
        timer.callback = None
        bucket, timer.bucket = timer.bucket, None
        if bucket is not None:
            del bucket[timer]
            self._count -= 1
            if not bucket and timer.level >= 0:
                self._occupied[timer.level] &= ~(1 << timer.slot)
        return True

    def put_off(self, timer: Timer, deadline_ms: int) -> bool:
        """Give a timer a later deadline. O(1).

        False, and nothing is done, if it does not wait any more or would be due
        earlier than it is.
        """
        if timer.bucket is None or deadline_ms < timer.deadline_ms:
            return False
        timer.deadline_ms = deadline_ms
        return True

    def advance(self, now_ms: int) -> list[Timer]:
        """Move to ``now_ms``; the timers due by then, by deadline, then by insertion.

        They are out of the wheel; the caller fires them. Time that goes back is as
        time that stands still.
        """
        target = max(self._elapsed, (now_ms - self._start_ms) // self._tick_ms)
        due: list[Timer] = []
        self._take(self._overdue, due)
        while (found := self._earliest()) is not None:
            level, slot, first_tick = found
            if first_tick > target:
                break
            self._elapsed = first_tick
            self._occupied[level] &= ~(1 << slot)
            bucket = self._levels[level][slot]
            self._levels[level][slot] = {}
            if level:
                self._lower(bucket, due)
            else:
                self._take(bucket, due)
        self._elapsed = target
        return due

    def next_deadline(self) -> int | None:
        """When to call ``advance`` next, ms; None: there is nothing to wait for.

        Never later than the earliest deadline (rounded up to its tick), and earlier
        only to move a slot of a higher level down.
        """
        if self._overdue:
            return self._start_ms + self._elapsed * self._tick_ms
        found = self._earliest()
        if found is None:
            return None
        return self._start_ms + found[2] * self._tick_ms

    def _place(self, timer: Timer) -> None:
        tick = -((self._start_ms - timer.deadline_ms) // self._tick_ms)
        if tick <= self._elapsed:
            timer.level, timer.bucket = -1, self._overdue
            self._overdue[timer] = None
            return
        level = ((tick ^ self._elapsed).bit_length() - 1) // self._bits
        while level >= len(self._levels):
            self._levels.append([{} for _ in range(self._size)])
            self._occupied.append(0)
        slot = (tick >> (level * self._bits)) & (self._size - 1)
        bucket = self._levels[level][slot]
        bucket[timer] = None
        timer.level, timer.slot, timer.bucket = level, slot, bucket
        self._occupied[level] |= 1 << slot

    def _earliest(self) -> tuple[int, int, int] | None:
        """Level, slot and first tick of the slot that comes first."""
        for level, occupied in enumerate(self._occupied):
            if occupied:
                slot = (occupied & -occupied).bit_length() - 1
                shift = level * self._bits
                above = self._elapsed >> (shift + self._bits) << self._bits
                return level, slot, (above | slot) << shift
        return None

    def _lower(self, bucket: Bucket, due: list[Timer]) -> None:
        """Place the timers of a slot again, now that its first tick is reached."""
        for timer in bucket:
            self._place(timer)
        self._take(self._overdue, due)

    def _take(self, bucket: Bucket, due: list[Timer]) -> None:
        """Take a slot out that is due, but for the timers that were put off."""
        reached_ms = self._start_ms + self._elapsed * self._tick_ms
        for timer in bucket:
            if timer.deadline_ms > reached_ms:
                self._place(timer)
            else:
                timer.bucket = None
                due.append(timer)
                self._count -= 1
        bucket.clear()
