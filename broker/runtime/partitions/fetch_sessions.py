"""The fetch sessions of a broker at work: their clock, and who waits in them.

One fetch waits in a session at most: the next one, or the session's end, completes it.
What a session had registered with logs is taken away in turns of the loop.
"""

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from broker.clock import Clock
from broker.fetching.session import EPOCH_MAX, PARTITION_BYTES, FetchSession
from broker.fetching.sessions import FetchSessions
from broker.protocol.messages.fetch import FetchResponse
from broker.runtime.partitions.fetches import FetchFuture
from broker.settings import BrokerSettings

ID_BYTES = 4


class ServedSessions:
    """All sessions. ``chance`` gives so many random bytes, ``call_soon`` is the
    loop's."""

    def __init__(
        self,
        settings: BrokerSettings,
        clock: Clock,
        chance: Callable[[int], bytes],
        call_soon: Callable[[Callable[[], None]], Any],
    ) -> None:
        self._clock = clock
        self._chance = chance
        self._call_soon = call_soon
        self._waiting: dict[FetchSession, FetchFuture] = {}
        self.sessions = FetchSessions(
            settings.max_incremental_fetch_session_cache_slots,
            settings.fetch_sessions_bytes_max,
            self._new_id,
            self._closed,
        )

    def begin(self, session_id: int, epoch: int, *, by_id: bool) -> FetchSession:
        """As ``FetchSessions.begin``; who waits in the session is answered."""
        session = self.sessions.begin(session_id, epoch, by_id=by_id)
        self._cut_short(session)
        return session

    def awaits(self, session: FetchSession, answer: Awaitable[FetchResponse]) -> None:
        """An answer of a session that is not there yet."""
        assert isinstance(answer, FetchFuture)
        if answer.done():
            return
        self._waiting[session] = answer
        answer.add_done_callback(lambda _: self._finished(session, answer))

    def used(self, session: FetchSession) -> bool:
        """As ``FetchSessions.used``, now."""
        return self.sessions.used(session, self._clock.monotonic_ms())

    def may_grow(self, session: FetchSession) -> bool:
        """As ``FetchSessions.may_grow``."""
        return self.sessions.may_grow(session)

    def has_room(self, size: int) -> bool:
        """Whether a session of so many partitions would be kept."""
        now_ms = self._clock.monotonic_ms()
        return self.sessions.has_room(size, size * PARTITION_BYTES, now_ms)

    def open(self, session: FetchSession) -> int:
        """As ``FetchSessions.open``, now."""
        return self.sessions.open(session, self._clock.monotonic_ms())

    def remove(self, session_id: int) -> None:
        """As ``FetchSessions.remove``."""
        self.sessions.remove(session_id)

    def _new_id(self) -> int:
        return int.from_bytes(self._chance(ID_BYTES)) & EPOCH_MAX

    def _finished(self, session: FetchSession, answer: FetchFuture) -> None:
        if self._waiting.get(session) is answer:
            del self._waiting[session]

    def _cut_short(self, session: FetchSession) -> None:
        waiting = self._waiting.pop(session, None)
        if waiting is not None:
            waiting.cut_short()

    def _closed(self, session: FetchSession) -> None:
        self._go_on_closing(session.close())
        self._cut_short(session)

    def _go_on_closing(self, steps: Iterator[None]) -> None:
        for _ in steps:
            self._call_soon(lambda: self._go_on_closing(steps))
            return
