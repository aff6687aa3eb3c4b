"""Lags over time, in a bounded memory; held against a plain list."""

from hypothesis import given
from hypothesis import strategies as st

from admin_api.lag_history.ring import LagRing, Series, total

KEYS = [(group, topic, n) for group in "gh" for topic in "ab" for n in range(2)]


@given(st.lists(st.dictionaries(st.sampled_from(KEYS), st.integers(0, 9)), max_size=12))
def test_it_keeps_the_last_points_of_each_series(rounds):
    ring, slots = LagRing(4, 100), 4
    for at, lags in enumerate(rounds):
        ring.add(at, lags)
    kept = list(enumerate(rounds))[-slots:]
    for group in "gh":
        expected = [
            Series(key[1], key[2], points)
            for key in KEYS
            if key[0] == group
            and (points := [(at, lags[key]) for at, lags in kept if key in lags])
        ]
        assert list(ring.series(group)) == expected
    assert len(ring) == len({key for _, lags in kept for key in lags})


def test_beyond_its_bound_new_series_are_counted_and_not_kept():
    ring = LagRing(2, 1)
    ring.add(1, {("g", "a", 0): 5})
    ring.add(2, {("g", "a", 0): 6, ("g", "b", 0): 7})
    assert ring.left_out == 1
    assert list(ring.series("g")) == [Series("a", 0, [(1, 5), (2, 6)])]
    ring.add(3, {})
    ring.add(4, {("g", "b", 0): 8})  # the first has gone, there is room
    assert (ring.left_out, len(ring)) == (0, 1)
    assert list(ring.series("g")) == [Series("b", 0, [(4, 8)])]


def test_what_is_older_than_wanted_is_left_out():
    ring = LagRing(10, 10)
    for at in range(5):
        ring.add(at, {("g", "a", 0): at})
    assert list(ring.series("g", since_ms=3)) == [Series("a", 0, [(3, 3), (4, 4)])]
    assert not list(ring.series("nobody"))


def test_a_total_is_a_sum_at_each_time():
    one, other = Series("a", 0, [(1, 1), (2, 2)]), Series("a", 1, [(2, 3), (3, 4)])
    assert total([one, other]) == [(1, 1), (2, 5), (3, 4)]
