"""A bounded cache whose entries are made once, even if several threads want them.

The problem: a fetch and the read-ahead want the same chunk at the same moment, and
decoding it twice costs twice. The idea: whoever comes first makes it, the others wait
for that. The making begins at once on the thread that promised it, so nobody waits for
something that waits itself.

The price: bounded by the bytes of what is kept, not of what is being made.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Generic, Protocol, TypeVar


class Sized(Protocol):
    """Something that knows its bytes."""

    @property
    def size_bytes(self) -> int: ...


T = TypeVar("T", bound=Sized)


class Cache(Generic[T]):
    """Least recently used entries are dropped above ``bytes_max``; one is always kept.

    Any thread may use it.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._kept: OrderedDict[Hashable, T] = OrderedDict()
        self._making: dict[Hashable, Future[T]] = {}
        self._lock = threading.Lock()
        self.hits = self.misses = 0
        """How often an entry was there, and how often one had to be made."""

    @property
    def size_bytes(self) -> int:
        """Bytes that are kept now."""
        return self._bytes

    def holds(self, key: Hashable) -> bool:
        """Whether it is there, or being made."""
        with self._lock:
            return key in self._kept or key in self._making

    def is_ready(self, key: Hashable) -> bool:
        """Whether it is there."""
        with self._lock:
            return key in self._kept

    def kept(self, key: Hashable) -> T | None:
        """The entry, if it is there."""
        with self._lock:
            return self._used(key)

    def clear(self) -> None:
        """Drop all that is kept."""
        with self._lock:
            self._kept.clear()
            self._bytes = 0

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """The entry, made by ``make`` if need be. Raises what ``make`` raises."""
        with self._lock:
            known = self._used(key)
            if known is not None:
                return known
            promised = self._making.get(key)
            if promised is None:
                mine: Future[T] = Future()
                self._making[key] = mine
                self.misses += 1
        if promised is not None:
            return promised.result()
        return self._make(key, make, mine)

    def _used(self, key: Hashable) -> T | None:
        """The entry, used once more; the lock is held."""
        known = self._kept.get(key)
        if known is not None:
            self._kept.move_to_end(key)
            self.hits += 1
        return known

    def _make(self, key: Hashable, make: Callable[[], T], promise: Future[T]) -> T:
        try:
            made = make()
        except BaseException as error:
            with self._lock:
                del self._making[key]
            promise.set_exception(error)
            raise
        with self._lock:
            del self._making[key]
            self._keep(key, made)
        promise.set_result(made)
        return made

    def _keep(self, key: Hashable, made: T) -> None:
        self._kept[key] = made
        self._bytes += made.size_bytes
        while self._bytes > self._bytes_max and len(self._kept) > 1:
            _, gone = self._kept.popitem(last=False)
            self._bytes -= gone.size_bytes
