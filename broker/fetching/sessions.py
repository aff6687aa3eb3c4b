"""All fetch sessions of a broker: found, checked, limited and evicted.

The problem: a session is memory that a client takes and need not give back, as it is
bound to no connection. The idea (``FetchSessionCache``): there are so many slots, and a
client that gets none goes on without a session. A slot is given up by whoever has been
silent for ``EVICTION_MS``, or by the smallest that is older than that and smaller than
who wants it. The bytes of all together are limited, too: for these only silent sessions
give way, or one client could drive out all others.

Kafka prefers its followers (privileged sessions): here there are none.
"""

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from broker.fetching.session import FetchSession
from broker.protocol.errors import ErrorCode, KafkaError

EVICTION_MS: Final = 120_000
"""``ServerConfigs.MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS``."""


class _Used:
    """When a session was used last, and what it counts for among those that can be
    evicted: its size then; -1 if it cannot."""

    __slots__ = ("at_ms", "bytes", "session", "size")

    def __init__(self, session: FetchSession) -> None:
        self.session = session
        self.at_ms = 0
        self.size = -1
        self.bytes = 0


class FetchSessions:
    """Sessions by id. ``new_id`` makes one at random; ``closed`` is called with each
    that is removed or evicted."""

    def __init__(
        self,
        slots: int,
        bytes_max: int,
        new_id: Callable[[], int],
        closed: Callable[[FetchSession], None],
    ) -> None:
        self._slots = slots
        self._bytes_max = bytes_max
        self._new_id = new_id
        self._closed = closed
        self._by_use: OrderedDict[int, _Used] = OrderedDict()
        self._evictable: list[tuple[int, int]] = []
        self.bytes = 0
        """What all sessions take together, as far as they were used."""
        self.evicted = 0

    def __len__(self) -> int:
        return len(self._by_use)

    def begin(self, session_id: int, epoch: int, *, by_id: bool) -> FetchSession:
        """The session of an incremental request, and its next epoch begins.

        Raises FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, or
        FETCH_SESSION_TOPIC_ID_ERROR if topics had ids and have names, or the other way.
        """
        used = self._by_use.get(session_id)
        if used is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        session = used.session
        if session.epoch != epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.by_id != by_id:
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.step()
        return session

    def used(self, session: FetchSession, now_ms: int) -> bool:
        """A request has changed a session. False, and it is closed, if it has nothing
        left, or has become too large; or if it was closed before."""
        used = self._by_use.get(session.id)
        if used is None or used.session is not session:
            return False
        self._weigh(used, session.weight_bytes)
        self._use(used, now_ms)
        if len(session) and self._has_bytes(0, now_ms):
            return True
        self.remove(session.id)
        return False

    def may_grow(self, session: FetchSession) -> bool:
        """Whether a session alone is still within the bytes of all."""
        return session.weight_bytes <= self._bytes_max

    def has_room(self, size: int, weight_bytes: int, now_ms: int) -> bool:
        """Whether a session of so many partitions would be kept."""
        if weight_bytes > self._bytes_max:
            return False
        if len(self) >= self._slots and self._victim(size, now_ms) is None:
            return False
        return self.bytes + weight_bytes <= self._bytes_max or self._is_stale(now_ms)

    def open(self, session: FetchSession, now_ms: int) -> int:
        """Keep a session: its id; 0 if there is no room for it, and it is closed."""
        if not self._make_room(len(session), session.weight_bytes, now_ms):
            self._closed(session)
            return 0
        while not session.id or session.id in self._by_use:
            session.id = self._new_id()
        session.created_ms = now_ms
        used = self._by_use[session.id] = _Used(session)
        self._weigh(used, session.weight_bytes)
        self._use(used, now_ms)
        return session.id

    def remove(self, session_id: int) -> None:
        """Close a session; none of this id is no error."""
        used = self._by_use.pop(session_id, None)
        if used is None:
            return
        self._unrank(used)
        self._weigh(used, 0)
        self._closed(used.session)

    def _make_room(self, size: int, weight_bytes: int, now_ms: int) -> bool:
        if not self.has_room(size, weight_bytes, now_ms):
            return False
        if len(self) >= self._slots:
            victim = self._victim(size, now_ms)
            assert victim is not None
            self._evict(victim)
        return self._has_bytes(weight_bytes, now_ms)

    def _has_bytes(self, more: int, now_ms: int) -> bool:
        """Whether there is room; silent sessions give way."""
        while self.bytes + more > self._bytes_max:
            if not self._is_stale(now_ms):
                return False
            self._evict(next(iter(self._by_use)))
        return True

    def _victim(self, size: int, now_ms: int) -> int | None:
        """Who gives its slot to a session of this size (``tryEvict``)."""
        if self._is_stale(now_ms):
            return next(iter(self._by_use))
        if self._evictable and self._evictable[0] < (size, 0):
            return self._evictable[0][1]
        return None

    def _is_stale(self, now_ms: int) -> bool:
        """Whether the one that was used the longest ago has been silent for long."""
        oldest = next(iter(self._by_use.values()), None)
        return oldest is not None and now_ms - oldest.at_ms > EVICTION_MS

    def _evict(self, session_id: int) -> None:
        self.evicted += 1
        self.remove(session_id)

    def _use(self, used: _Used, now_ms: int) -> None:
        session = used.session
        used.at_ms = now_ms
        self._by_use.move_to_end(session.id)
        self._unrank(used)
        if now_ms - session.created_ms > EVICTION_MS:
            used.size = len(session)
            insort(self._evictable, (used.size, session.id))

    def _unrank(self, used: _Used) -> None:
        if used.size >= 0:
            key = used.size, used.session.id
            del self._evictable[bisect_left(self._evictable, key)]
            used.size = -1

    def _weigh(self, used: _Used, weight_bytes: int) -> None:
        self.bytes += weight_bytes - used.bytes
        used.bytes = weight_bytes
