"""Numbers, booleans and lists are read as Java reads them.

What Kafka itself says of each is in ``tests/clients/odd_corners.txt``.
"""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.topics.spellings import (
    boolean,
    double,
    integer,
    shown,
    split_list,
    trimmed,
)


def test_what_is_trimmed_is_ascii() -> None:
    assert trimmed("\x00\t 5 \x1f\n") == "5"
    assert trimmed("\xa05\u2003") == "\xa05\u2003"


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("5", 5), ("+5", 5), ("-5", -5), ("-0", 0), ("0" * 5_000 + "7", 7),
        ("\u0665", 5), ("5\uff15", 55), ("9" * 19, 10**19 - 1), ("9" * 20, None),
        ("1" * 100_000, None), ("", None), ("+", None), ("+-5", None), ("5_0", None),
        (" 5", None), ("0x10", None), ("1e3", None), ("5L", None), ("5.0", None),
        ("\U0001d7ef", None), ("\u00b2", None), ("\u22125", None),
    ],
)  # fmt: skip
def test_a_whole_number(text: str, number: int | None) -> None:
    assert integer(text) == number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("5", 5.0), (".5", 0.5), ("5.", 5.0), ("+.5f", 0.5), ("1e3", 1000.0),
        ("5d", 5.0), ("0x1p-1", 0.5), ("0x.8P0d", 0.5), ("-0x1p1", -2.0),
        ("1e400", math.inf), ("0x1p99999", math.inf), ("-0x1p99999", -math.inf),
        ("Infinity", math.inf), ("-Infinity", -math.inf), ("1e-400", 0.0),
        ("", None), (".", None), ("1e", None), ("0x1", None), ("nan", None),
        ("inf", None), ("NaNf", None), ("5_0", None), ("\u0665", None), ("5L", None),
    ],
)  # fmt: skip
def test_a_number(text: str, number: float | None) -> None:
    assert double(text) == number


def test_no_number_is_one_too() -> None:
    assert all(math.isnan(double(text) or 0.0) for text in ("NaN", "+NaN", "-NaN"))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True), ("TRUE", True), ("fAlse", False), ("fal\u017fe", False),
        ("yes", None), ("", None), ("1", None), ("true" * 1_000, None),
    ],
)  # fmt: skip
def test_a_boolean(text: str, value: bool | None) -> None:
    assert boolean(text) is value


@pytest.mark.parametrize(
    ("text", "elements"),
    [
        ("", ()), ("\t ", ()), ("a", ("a",)), (" a\n,\x0bb ", ("a", "b")),
        ("a,", ("a", "")), (",", ("", "")), ("a\xa0,b", ("a\xa0", "b")),
    ],
)  # fmt: skip
def test_a_list(text: str, elements: tuple[str, ...]) -> None:
    assert split_list(text) == elements


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (5, "5"), (True, "true"), (False, "false"), ("x", "x"), (("a", "b"), "a,b"),
        ((), ""), (0.5, "0.5"), (1.0, "1.0"), (0.001, "0.001"), (0.00012, "1.2E-4"),
        (-1e-5, "-1.0E-5"), (12345678.9, "1.23456789E7"), (1e22, "1.0E22"),
        (math.nan, "NaN"), (-math.inf, "-Infinity"), (-0.0, "-0.0"),
    ],
)  # fmt: skip
def test_how_a_value_is_shown(
    value: bool | int | float | str | tuple[str, ...], text: str
) -> None:
    assert shown(value) == text


@given(st.floats(allow_nan=False))
def test_what_is_shown_is_read_as_the_same_number(value: float) -> None:
    assert double(shown(value)) == value
