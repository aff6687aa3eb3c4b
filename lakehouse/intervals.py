"""Lengths of time as Delta's table properties say them. Pure."""

from typing import Final

_UNITS_MS: Final = {
    "week": 604_800_000, "day": 86_400_000, "hour": 3_600_000, "minute": 60_000,
    "second": 1_000, "millisecond": 1,
}  # fmt: skip


_DIGITS: Final = 12
"""More milliseconds than that are no length of time that anybody means."""


def interval_ms(text: str) -> int | None:
    """``interval 2 days 3 hours`` in milliseconds; None: it cannot be understood."""
    words = text.lower().removeprefix("interval").split()
    if not words or len(words) % 2 or not all(map(_is_count, words[::2])):
        return None
    units = [unit.removesuffix("s") for unit in words[1::2]]
    if not set(units) <= _UNITS_MS.keys():
        return None
    pairs = zip(words[::2], units, strict=True)
    return sum(int(count) * _UNITS_MS[unit] for count, unit in pairs)


def _is_count(word: str) -> bool:
    return word.isdecimal() and len(word) <= _DIGITS
