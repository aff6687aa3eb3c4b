"""What flows goes at once, what trickles makes few files; none waits too long."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.flush import (
    FILE_BYTES,
    SEGMENTS_HELD_MAX,
    Flush,
    Waiting,
    comes_along,
    is_due,
    overdue_ms,
)

FLUSH = Flush(5_000, 60_000, 64 << 20)
MANY = 2 * FILE_BYTES


def waiting(size: int, age_ms: int, quiet_ms: int | None = 0, **more: int) -> Waiting:
    given = {"partitions": 1, "segments": 0} | more
    return Waiting(size, given["partitions"], age_ms, quiet_ms, given["segments"])


@pytest.mark.parametrize(
    ("one", "since_ms"),
    [
        (waiting(MANY, 5_000), 0),  # it flows
        (waiting(MANY, 4_999), -1),
        (waiting(MANY, 5_000, partitions=4), -5_000),  # into files that are too small
        (waiting(FILE_BYTES // 3, 15_000), 0),
        (waiting(FILE_BYTES // 3, 14_000), -1_000),
        (waiting(10, 59_999), -1),
        (waiting(10, 60_000), 0),  # its bound
        (waiting(10, 5_000, 60_000), 0),  # it rested for as long
        (waiting(10, 4_000, 90_000), -1_000),
        (waiting(10, 5_000, None), 0),
        (waiting(10, 5_000, segments=SEGMENTS_HELD_MAX), 0),
        (waiting(10, 9_000, segments=SEGMENTS_HELD_MAX), 0),  # that is not late
        (waiting(10, 5_000, segments=SEGMENTS_HELD_MAX - 1), -55_000),
        (waiting(10, 80_000, 61_000), 20_000),
    ],
)
def test_since_when_a_topic_is_due(one: Waiting, since_ms: int) -> None:
    assert overdue_ms(one, FLUSH) == since_ms
    assert is_due(one, FLUSH) == (since_ms >= 0)


def test_bytes_beyond_the_limit_go_at_any_age() -> None:
    assert is_due(waiting(64 << 20, 0), FLUSH)
    assert not is_due(waiting((64 << 20) - 1, 0), FLUSH)
    assert comes_along(waiting(32 << 20, 0), FLUSH)


def test_a_bound_below_the_flow_is_kept() -> None:
    assert is_due(waiting(10, 700), FLUSH._replace(max_ms=700))
    assert is_due(waiting(10, 0), FLUSH._replace(max_ms=0))


@pytest.mark.parametrize(
    ("one", "comes"),
    [
        (waiting(MANY, 2_500), True),
        (waiting(MANY, 2_499), False),
        (waiting(10, 45_000), True),
        (waiting(10, 44_999), False),
        (waiting(10, 2_500, None), True),
        (waiting(10, 2_499, 60_000), False),
        (waiting(10, 2_500, 45_000), True),
        (waiting(10, 2_500, 44_999), False),
    ],
)
def test_who_is_nearly_due_comes_along(one: Waiting, comes: bool) -> None:
    assert comes_along(one, FLUSH) == comes


@given(
    st.builds(
        Waiting,
        st.integers(1, 1 << 30),
        st.integers(1, 500),
        st.integers(0, 200_000),
        st.none() | st.integers(0, 200_000),
        st.integers(0, 20),
    ),
    st.builds(
        Flush, st.integers(0, 99_999), st.integers(0, 99_999), st.integers(1, 1 << 30)
    ),
)
def test_none_waits_beyond_its_bound_and_what_is_due_comes_along(
    one: Waiting, flush: Flush
) -> None:
    if one.age_ms >= flush.max_ms:
        assert is_due(one, flush)
    if is_due(one, flush):
        assert comes_along(one, flush)
    if is_due(one, flush) and one.bytes < flush.bytes:
        assert one.age_ms >= flush.soonest_ms
