"""Lengths of time as Delta's table properties say them. Pure.

Delta takes what Spark's parser of intervals does, with or without the word ``interval``
before it, but for months and years, and for what is negative in days or below them.

Source: Spark's ``IntervalUtils.stringToInterval``; ``DeltaConfigs`` in ``io.delta``.
"""

import re
from typing import Final

_UNITS: Final = {
    "year": ("months", 12), "month": ("months", 1),
    "week": ("days", 7), "day": ("days", 1),
    "hour": ("us", 3_600_000_000), "minute": ("us", 60_000_000),
    "second": ("us", 1_000_000), "millisecond": ("us", 1_000), "microsecond": ("us", 1),
}  # fmt: skip
_LIMITS: Final = {"months": 1 << 31, "days": 1 << 31, "us": 1 << 63}
"""Spark keeps these three as int, int and long."""

_DIGITS: Final = 19
"""More of them no long has."""

_BLANKS: Final = " \t\n\r\f\v"
_DAY_MS: Final = 86_400_000
_TERM: Final = re.compile(
    rf"([+-]?)\s*(\d+(?:\.\d{{0,9}})?|\.\d{{1,9}})\s+({'|'.join(_UNITS)})s?(?:\s+|\Z)",
    re.ASCII,
)
_TERMS: Final = re.compile(f"(?:{_TERM.pattern})+", re.ASCII)

FOR_EVER_MS: Final = 1 << 62
"""Longer than anything has been there."""


def interval_ms(text: str) -> int | None:
    """``interval 2 days 3.5 seconds`` in milliseconds; None: Delta does not take it."""
    terms = _terms(text)
    if _TERMS.fullmatch(terms) is None:
        return None
    totals = dict.fromkeys(_LIMITS, 0)
    for sign, number, unit in _TERM.findall(terms):
        field, factor = _UNITS[unit]
        count = _times(number, factor, has_fractions=unit == "second")
        if count is None:
            return None
        totals[field] += -count if sign == "-" else count
        if max(count, abs(totals[field])) >= _LIMITS[field]:
            return None
    if totals["months"] or totals["days"] < 0 or totals["us"] < 0:
        return None
    return totals["days"] * _DAY_MS + totals["us"] // 1_000


def first_ms(text: str) -> int | None:
    """The same of its first number and unit alone, beyond which the library does not
    read; all of it where that takes a week for such words."""
    first = _TERM.match(_terms(text))
    if first is None or text.split()[0] != "interval":
        return interval_ms(text)
    return interval_ms(first[0])


def _terms(text: str) -> str:
    return text.lower().strip(_BLANKS).removeprefix("interval ").lstrip(_BLANKS)


def _times(number: str, factor: int, *, has_fractions: bool) -> int | None:
    """A number in its unit, what is below a microsecond cut off; None: it is none."""
    whole, point, fraction = number.partition(".")
    whole = whole.lstrip("0")
    if len(whole) > _DIGITS or (point and not has_fractions):
        return None
    return int(whole or 0) * factor + int(fraction.ljust(9, "0")) // 1_000
