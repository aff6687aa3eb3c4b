"""All fetch sessions: who gets one, who loses it, and what they weigh."""

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.fetching.session import PARTITION_BYTES, FetchSession
from broker.fetching.sessions import EVICTION_MS, FetchSessions
from broker.protocol.errors import ErrorCode, KafkaError
from broker.protocol.messages.fetch import FetchPartition

MANY_BYTES = 1 << 30
MINUTE_MS = 60_000


def session_of(size: int, *, by_id: bool = True) -> FetchSession:
    session = FetchSession(by_id=by_id)
    for index in range(size):
        session.update("", b"", FetchPartition(index))
    return session


class Cache:
    """Sessions whose ids count from 1; it hears which are closed."""

    def __init__(self, slots: int = 2, bytes_max: int = MANY_BYTES) -> None:
        self.closed: list[int] = []
        numbers = count()
        self.sessions = FetchSessions(
            slots, bytes_max, lambda: next(numbers), self._closed
        )

    def _closed(self, session: FetchSession) -> None:
        self.closed.append(session.id)
        list(session.close())

    def open(self, size: int, now_ms: int) -> int:
        return self.sessions.open(session_of(size), now_ms)

    def use(self, session_id: int, now_ms: int) -> bool:
        """An incremental fetch that changes nothing."""
        used = self.sessions._by_use[session_id].session
        begun = self.sessions.begin(session_id, used.epoch, by_id=True)
        return self.sessions.used(begun, now_ms)


def test_a_session_goes_by_id_and_epoch_alone() -> None:
    cache = Cache()
    assert cache.open(1, 0) == 1  # 0 is no session's id
    for session_id, epoch, by_id, code in (
        (2, 1, True, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (-1, 1, True, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (1, 2, True, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (1, 0, True, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (1, 2, False, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (1, 1, False, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR),
    ):
        with pytest.raises(KafkaError) as refused:
            cache.sessions.begin(session_id, epoch, by_id=by_id)
        assert refused.value.code == code
    assert cache.sessions.begin(1, 1, by_id=True).epoch == 2
    with pytest.raises(KafkaError):
        cache.sessions.begin(1, 1, by_id=True)


def test_without_a_slot_nobody_gets_a_session() -> None:
    cache = Cache(slots=0)
    assert not cache.sessions.has_room(1, 1, 0)
    assert cache.open(1, 0) == 0
    assert len(cache.sessions) == cache.sessions.bytes == 0


def test_a_young_session_is_not_evicted_however_small() -> None:
    cache = Cache(slots=1)
    assert cache.open(1, 0) == 1
    assert cache.use(1, EVICTION_MS)
    assert cache.open(100, EVICTION_MS) == 0
    assert len(cache.sessions) == 1


def test_a_larger_session_beats_the_smallest_that_is_old() -> None:
    cache = Cache(slots=3)
    sizes = [5, 3, 4]
    ids = [cache.open(size, 0) for size in sizes]
    assert all(cache.use(one, EVICTION_MS + 1) for one in ids)
    now_ms = EVICTION_MS + 2
    assert cache.open(3, now_ms) == 0
    assert cache.open(4, now_ms) == 4
    assert cache.closed[-1] == ids[1]
    assert cache.open(5, now_ms) == 5  # it drives out the one of 4, not that of 5
    assert cache.closed[-1] == ids[2]
    assert cache.open(5, now_ms) == 0
    assert cache.sessions.evicted == 2


def test_a_silent_session_gives_way_to_anybody() -> None:
    cache = Cache(slots=2)
    for _ in range(2):
        cache.open(9, 0)
    assert cache.use(1, EVICTION_MS)
    assert cache.open(1, EVICTION_MS) == 0
    assert cache.open(1, EVICTION_MS + 1) == 3
    assert cache.closed == [0, 2]  # the one that got no id, and the silent one


def test_bytes_are_limited_and_only_silent_sessions_give_way_for_them() -> None:
    cache = Cache(slots=10, bytes_max=10 * PARTITION_BYTES)
    sessions = cache.sessions
    assert cache.open(11, 0) == 0
    assert cache.open(4, 0) == 1
    assert cache.open(4, MINUTE_MS) == 2
    assert sessions.bytes == 8 * PARTITION_BYTES
    assert not sessions.has_room(3, 3 * PARTITION_BYTES, MINUTE_MS)
    assert cache.open(3, MINUTE_MS) == 0
    assert cache.use(1, EVICTION_MS + 1)
    assert cache.open(3, EVICTION_MS + 1) == 0  # old enough for its slot, not for this
    assert cache.open(3, MINUTE_MS + EVICTION_MS + 1) == 3
    assert 2 in cache.closed
    assert sessions.bytes == 7 * PARTITION_BYTES
    assert cache.open(8, MINUTE_MS + EVICTION_MS + 1) == 0


def test_a_session_that_grows_past_the_limit_is_closed() -> None:
    cache = Cache(bytes_max=2 * PARTITION_BYTES)
    cache.open(1, 0)
    session = cache.sessions.begin(1, 1, by_id=True)
    session.update("", b"", FetchPartition(1))
    assert cache.sessions.used(session, 0)
    assert cache.sessions.bytes == 2 * PARTITION_BYTES
    assert cache.sessions.may_grow(session)
    session.update("", b"", FetchPartition(2))
    assert not cache.sessions.may_grow(session)
    assert not cache.sessions.used(session, 0)
    assert cache.closed == [1]
    assert len(cache.sessions) == cache.sessions.bytes == 0
    assert not cache.sessions.used(session, 0)


def test_a_session_that_has_nothing_left_ends() -> None:
    cache = Cache()
    cache.open(1, 0)
    session = cache.sessions.begin(1, 1, by_id=True)
    session.forget("", b"", 0)
    assert not cache.sessions.used(session, 0)
    assert cache.closed == [1]
    cache.sessions.remove(1)  # there is none any more
    assert cache.closed == [1]


class Naive:
    """``FetchSessionCache`` without its maps: everything is looked at each time."""

    def __init__(self, slots: int) -> None:
        self.slots, self.last = slots, 0
        self.all: dict[int, dict[str, int]] = {}

    def use(self, one: int, now_ms: int) -> bool:
        if one not in self.all:
            return False
        known = self.all.pop(one)
        old = now_ms - known["created"] > EVICTION_MS
        self.all[one] = known | {"used": now_ms, "old": old}
        return True

    def open(self, size: int, now_ms: int) -> int:
        if len(self.all) >= self.slots:
            oldest = min(self.all.values(), key=lambda one: one["used"])
            if now_ms - oldest["used"] > EVICTION_MS:
                victim = next(one for one in self.all if self.all[one] is oldest)
            else:
                old = [(k["size"], one) for one, k in self.all.items() if k["old"]]
                if not old or min(old)[0] >= size:
                    return 0
                victim = min(old)[1]
            del self.all[victim]
        self.last += 1
        self.all[self.last] = {
            "created": now_ms, "used": now_ms, "size": size, "old": False
        }  # fmt: skip
        return self.last


@given(
    st.lists(
        st.tuples(
            st.integers(0, EVICTION_MS),
            st.one_of(
                st.tuples(st.just("open"), st.integers(1, 4)),
                st.tuples(st.just("use"), st.integers(1, 12)),
                st.tuples(st.just("remove"), st.integers(1, 12)),
            ),
        ),
        max_size=60,
    )
)
def test_evictions_are_those_of_looking_at_everything(
    steps: list[tuple[int, tuple[str, int]]],
) -> None:
    cache, naive, now_ms = Cache(slots=3), Naive(slots=3), 0
    for later_ms, (what, number) in steps:
        now_ms += later_ms
        match what:
            case "open":
                assert cache.open(number, now_ms) == naive.open(number, now_ms)
            case "use":
                is_there = naive.use(number, now_ms)
                assert is_there is (number in cache.sessions._by_use)
                assert not is_there or cache.use(number, now_ms)
            case "remove":
                cache.sessions.remove(number)
                naive.all.pop(number, None)
        assert list(cache.sessions._by_use) == list(naive.all)
        taken = sum(one["size"] for one in naive.all.values()) * PARTITION_BYTES
        assert cache.sessions.bytes == taken
