"""Histograms held against a plain search for the bound."""

from bisect import bisect_left, bisect_right

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.status.histogram import (
    SIZES,
    TIMES,
    UNIT_NS,
    Histogram,
    HistogramState,
    merged,
    size_bounds,
    time_bounds_s,
)


@given(st.lists(st.integers(0, 10**12)))
def test_a_duration_is_below_the_bound_of_its_bucket(values: list[int]) -> None:
    histogram, expected = Histogram(TIMES), [0] * TIMES
    bounds_ns = [round(bound * 1e9) for bound in time_bounds_s(TIMES)]
    for value in values:
        histogram.add_time(value)
        expected[bisect_right(bounds_ns, value)] += 1
    assert histogram.state() == HistogramState(tuple(expected), sum(values))


@given(st.lists(st.integers(1, 10**6)))
def test_a_size_is_at_most_the_bound_of_its_bucket(values: list[int]) -> None:
    histogram, expected = Histogram(SIZES), [0] * SIZES
    for value in values:
        histogram.add_size(value)
        expected[bisect_left(size_bounds(SIZES), value)] += 1
    assert histogram.state() == HistogramState(tuple(expected), sum(values))


def test_the_bounds_go_from_64_us_to_16_s() -> None:
    bounds = time_bounds_s(TIMES)
    assert bounds[0] == UNIT_NS / 1e9 == 0.000064
    assert bounds[-1] == pytest.approx(16.8, abs=0.1)
    assert size_bounds(SIZES)[-1] == 4096


def test_two_are_added_bucket_by_bucket() -> None:
    one, other = HistogramState((1, 2), 3), HistogramState((10, 20), 30)
    assert merged(one, other) == HistogramState((11, 22), 33)
    assert merged(one, HistogramState()) == merged(HistogramState(), one) == one
