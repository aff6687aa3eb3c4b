"""Lengths of time as Delta's table properties say them. Pure.

Delta takes what Spark's parser of intervals does, with or without the word ``interval``
before it, but for months and years, and for a sum that is below 0, as some beyond a
long are to it. What it takes counts as it is said here.

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
"""Spark keeps these three as int, int and long; a long with this bit is below 0."""

_DIGITS: Final = 19
"""More of them no long has."""

_CONTROLS: Final = "".join(map(chr, range(ord(" ") + 1)))
"""What Java takes off both ends."""
_DELETE: Final = "\x7f"
"""What Spark takes off the last end besides."""
_BLANKS: Final = " \t\n\v\f\r\x1c\x1d\x1e\x1f"
"""What is between words."""
_DAY_US: Final = 86_400_000_000
_TERM: Final = re.compile(
    rf"([+-]?)[{_BLANKS}]*(\d+(?:\.\d{{0,9}})?|\.\d{{1,9}})[{_BLANKS}]+"
    rf"({'|'.join(_UNITS)})s?(?:[{_BLANKS}]+|\Z)",
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
    total_us = totals["days"] * _DAY_US + totals["us"]
    if totals["months"] or total_us < 0 or total_us & _LIMITS["us"]:
        return None
    return total_us // 1_000


def first_ms(text: str) -> int | None:
    """The same of its first number and unit alone, beyond which the library does not
    read; all of it where that takes a week for such words."""
    first = _TERM.match(_terms(text))
    if first is None or text.split()[0] != "interval":
        return interval_ms(text)
    return interval_ms(first[0])


def _terms(text: str) -> str:
    trimmed = text.lower().lstrip(_CONTROLS).rstrip(_CONTROLS + _DELETE)
    return trimmed.removeprefix("interval ").lstrip(_BLANKS)


def _times(number: str, factor: int, *, has_fractions: bool) -> int | None:
    """A number in its unit, what is below a microsecond cut off; None: it is none."""
    whole, point, fraction = number.partition(".")
    whole = whole.lstrip("0")
    if len(whole) > _DIGITS or (point and not has_fractions):
        return None
    return int(whole or 0) * factor + int(fraction.ljust(9, "0")) // 1_000
