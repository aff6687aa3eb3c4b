"""Operations that wait for something to happen, or for their time to run out.

The problem. A fetch that found too few bytes waits until an append brings more; a
produce waits until its batch is durable. What they wait for happens elsewhere, to a
partition or to a group, thousands of times a second, mostly with nobody waiting.

The idea (Kafka's ``DelayedOperationPurgatory``). An operation is *watched* under the
keys of what could satisfy it. Whoever changes such a thing calls ``check(key)``, which
asks the operations watched there. An operation is completed exactly once: either it is
satisfied, or its timer expires; whichever is first ends the other. Check, then watch,
then check again: looking may itself set things in motion (a cold read that arrives,
another operation completed), and what happens between the first look and the watching
would otherwise wake nobody.

The price. A check with nobody watching is one look-up in a dict. A completed operation
leaves the lists of all its keys at once, one dict deletion each, so there is no
purging and no tombstone. Operations are asked in the order in which they were watched.

Pure: timers come from whatever ``after`` is handed in.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import Protocol


class TimerHandle(Protocol):
    """A delay that runs."""

    def cancel(self) -> object:
        """Stop it. Nothing happens if it fired or was stopped before."""

    def put_off(self, delay_ms: int) -> bool:
        """Let it end ``delay_ms`` from now. False, and nothing is done, if it does not
        run any more or would end earlier than it does."""


class Timers(Protocol):
    """Delays: of the event loop, or of a wheel that is moved by hand."""

    def after(self, delay_ms: int, callback: Callable[[], None], /) -> TimerHandle:
        """Call back once, after ``delay_ms``."""


class DelayedOperation:
    """Something that waits; a subclass says for what, and what then.

    ``satisfied`` may be asked any number of times before completion and never after;
    ``complete`` runs exactly once, unless the operation is dropped, and then never.
    """

    __slots__ = ("done", "keys", "parked", "timer")

    def __init__(self) -> None:
        self.done = False
        self.parked = False
        self.keys: list[Hashable] = []
        self.timer: TimerHandle | None = None

    def satisfied(self) -> bool:
        """Whether what it waits for is there."""
        raise NotImplementedError

    def satisfied_by(self, key: Hashable) -> bool:
        """The same, when since it was last asked only ``key`` can have changed.

        One that is watched under many keys looks at this one alone.
        """
        return self.satisfied()

    def complete(self, *, expired: bool) -> None:
        """Answer, with what there is; ``expired`` when time ran out first."""
        raise NotImplementedError


class DelayedOperations:
    """The operations that wait, by what they wait for."""

    __slots__ = ("_count", "_timers", "_watched")

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._watched: dict[Hashable, dict[DelayedOperation, None]] = {}
        self._count = 0

    def __len__(self) -> int:
        """Operations that wait."""
        return self._count

    def operations(self) -> set[DelayedOperation]:
        """The operations that wait."""
        return {one for watching in self._watched.values() for one in watching}

    def watch(
        self, operation: DelayedOperation, keys: Iterable[Hashable], timeout_ms: int
    ) -> bool:
        """Complete it now if it is satisfied, else let it wait. True if completed.

        A timeout of 0 or less expires at once: the operation is never parked.
        """
        assert not operation.done, "completed before"
        assert not operation.parked, "watched before"
        if operation.satisfied():
            return self._complete(operation, expired=False)
        if timeout_ms <= 0:
            return self._complete(operation, expired=True)
        operation.keys = list(dict.fromkeys(keys))
        for key in operation.keys:
            self._watched.setdefault(key, {})[operation] = None
        operation.parked = True
        self._count += 1
        if operation.satisfied():
            self._complete(operation, expired=False)
        if not operation.done:
            operation.timer = self._timers.after(
                timeout_ms, lambda: self._expire(operation)
            )
        return operation.done

    def watch_also(self, operation: DelayedOperation, key: Hashable) -> None:
        """Let an operation that waits wait for ``key`` as well."""
        assert operation.parked, "it does not wait"
        watching = self._watched.setdefault(key, {})
        if operation not in watching:
            watching[operation] = None
            operation.keys.append(key)

    def check(self, key: Hashable) -> int:
        """Something happened to ``key``: complete who is satisfied. Returns how many.

        Completing may watch and check again; an operation is still completed once.
        """
        watching = self._watched.get(key)
        if watching is None:
            return 0
        completed = 0
        for operation in tuple(watching):
            if not operation.done and operation.satisfied_by(key):
                completed += self._complete(operation, expired=False)
        return completed

    def drop(self, operation: DelayedOperation) -> None:
        """Forget an operation nobody waits for any more: it is never completed."""
        if not operation.done:
            self._end(operation)

    def cut_short(self, operation: DelayedOperation) -> None:
        """Complete an operation that waits as if its time had run out."""
        if operation.parked:
            self._complete(operation, expired=True)

    def _expire(self, operation: DelayedOperation) -> None:
        operation.timer = None
        self._complete(operation, expired=True)

    def _complete(self, operation: DelayedOperation, *, expired: bool) -> bool:
        """True for the one call that completed it."""
        if operation.done:
            return False
        self._end(operation)
        operation.complete(expired=expired)
        return True

    def _end(self, operation: DelayedOperation) -> None:
        """Leave every list, before anybody is told: what is told may come back here."""
        operation.done = True
        timer, operation.timer = operation.timer, None
        if timer is not None:
            timer.cancel()
        if not operation.parked:
            return
        operation.parked = False
        self._count -= 1
        for key in operation.keys:
            watching = self._watched[key]
            del watching[operation]
            if not watching:
                del self._watched[key]
