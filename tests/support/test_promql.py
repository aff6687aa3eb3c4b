"""The little of PromQL that is known, as Prometheus has it."""

import pytest

from tests.support.promql import NOW_S, found_by

A, B = frozenset({("i", "a")}), frozenset({("i", "b")})
TWO = {'m{i="a"}': [1, 5], 'm{i="b"}': [1, 2], 'n{i="a"}': [2]}


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("m > 2", {A: 5}),
        ("m == 2", {B: 2}),
        ("m < 2", {}),
        ('m{i="a"} > 0', {A: 5}),
        ("other > 0", {}),
        ("m > 2 * n", {A: 5}),
        ("m - 4 < 1 * 2", {A: 1, B: -2}),
        ("m - time() < 0", {A: 5 - NOW_S, B: 2 - NOW_S}),
        ("increase(m[1m]) > 1", {A: 4}),
        ("increase(n[1m]) > 1", {}),
        ("rate(m[1m]) > 0.05", {A: 4 / 60}),
        ("max by (i) (m) > 2", {A: 5}),
        ("sum by (j) (m) > 6", {frozenset(): 7}),
    ],
)
def test_a_query_gives_what_it_names_and_compares(query, found):
    assert found_by(query, TWO) == found


@pytest.mark.parametrize(
    ("counts", "quantile"),
    [((100, 100, 100), 0.99), ((0, 100, 100), 1.99), ((0, 0, 100), 2.0)],
)
def test_a_quantile_lies_within_its_bucket(counts, quantile):
    """Behind the last bound it is that bound."""
    bounds = zip(("1", "2", "+Inf"), counts, strict=True)
    series = {f'h{{le="{bound}"}}': [0, count] for bound, count in bounds}
    [found] = found_by("histogram_quantile(0.99, rate(h[1m])) > 0", series).values()
    assert found == pytest.approx(quantile)


def test_of_nothing_there_is_no_quantile():
    series = {'h{le="+Inf"}': [7, 7]}
    assert found_by("histogram_quantile(0.99, rate(h[1m])) > 0", series) == {}


@pytest.mark.parametrize("query", ["m or n", "m > 1 > 0", "deriv(m[1m]) > 0", "m >= 1"])
def test_what_is_not_known_is_a_mistake(query):
    with pytest.raises((AssertionError, KeyError)):
        found_by(query, TWO)
