"""A fetch of a session: it looks at what is due, and waits for the rest all at once.

The problem: a session follows ten thousand partitions, and a fetch that waits cannot be
registered with each of them every time. The idea: partitions of which nothing is new
rest on their logs (``broker.fetching.session``), however many fetches come and go; the
fetch waits for its session, which knows what has become due. What is due and not enough
yet it waits for by itself, as any other fetch.
"""

import asyncio
from collections.abc import Callable, Hashable
from itertools import chain
from typing import Any

from broker.fetching.session import BY_TURN, FetchSession, SessionPartition
from broker.runtime.partitions.fetches import Fetch
from broker.runtime.partitions.reads import TURN_PLACES, Place, Steps


class SessionPlace(Place):
    """The place of a partition ``of`` a session."""

    __slots__ = ("of",)

    def __init__(self, of: SessionPartition) -> None:
        asked = of.asked
        super().__init__(None, asked.fetch_offset, asked.partition_max_bytes)
        self.of = of


class SessionFetch(Fetch):
    """A fetch of what is due in a session; ``place_of`` finds where it is read.

    Its session may become another fetch's, or be closed: then it waits no more.
    """

    __slots__ = ("_epoch", "_of_session", "_place_of", "_session")

    def __init__(
        self,
        session: FetchSession,
        places: list[SessionPlace],
        *parts: Any,
        place_of: Callable[[SessionPartition], SessionPlace],
        **more: Any,
    ) -> None:
        """``parts`` and ``more`` are those of a ``Fetch``."""
        super().__init__(places, *parts, **more)
        self._session = session
        self._epoch = session.epoch
        self._of_session = places
        self._place_of = place_of

    def _is_enough_now(self) -> bool:
        return self._session.is_closed or self._look_at(self._places)

    def _wait(self) -> None:
        if self._session.is_closed:
            self._read()
        else:
            super()._wait()

    def _keys(self) -> "chain[Hashable]":
        return chain((self._session,), self._before)

    def satisfied(self) -> bool:
        return self._is_woken_enough() or super().satisfied()

    def satisfied_by(self, key: Hashable) -> bool:
        if key is self._session:
            return self._is_woken_enough()
        return super().satisfied_by(key)

    def _is_woken_enough(self) -> bool:
        """Take what has become due, so much in a turn of the loop; whether that is an
        error, or enough with the rest."""
        woken = self._take_woken()
        enough = self._look_at(woken)
        if self.parked and not enough:
            assert self._purgatory is not None
            for place in woken:
                if place.partition is not None:
                    self._purgatory.watch_also(self, place.partition.key)
        if self._session.woken_count and not enough and self._is_current:
            asyncio.get_running_loop().call_soon(self._look_again)
        return enough

    def _look_again(self) -> None:
        if self.parked and self._purgatory is not None:
            self._purgatory.check(self._session)

    @property
    def _is_current(self) -> bool:
        """Whether no other fetch of the session has come since."""
        return self._session.epoch == self._epoch

    def _take_woken(self) -> list[SessionPlace]:
        if not self._is_current:
            return []
        woken = list(map(self._place_of, self._session.take_woken(TURN_PLACES)))
        self._of_session += woken
        self._count = max(self._count, len(self._of_session))
        return woken

    def _read(self) -> None:
        if self._is_current:
            more = self._session.woken_count
            self._count = max(self._count, len(self._of_session) + more)
        super()._read()

    def _plan_and_reserve(self) -> Steps[None]:
        """What has become due until now belongs to the answer."""
        while self._take_woken():
            if self._session.woken_count:
                yield
        if not self._is_current:
            self._of_session.clear()
        self._of_session.sort(key=_turn)
        yield from super()._plan_and_reserve()


def _turn(place: SessionPlace) -> int:
    return int(BY_TURN(place.of))
