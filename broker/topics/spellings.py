"""How Java reads a number, a boolean or a list, and so which spellings Kafka takes.

The problem: Python's own functions take other texts: digits with underscores, spaces of
all alphabets, not ``0x1p3`` and not ``.5f``. A configuration that one broker takes and
the other refuses is found when somebody moves. The idea: each of these is read as
``ConfigDef.parseType`` does it. Pure.

Source: ``ConfigDef.convertToString``, ``String.trim``, ``Integer.parseInt``,
``Double.parseDouble`` and ``Double.toString``, ``String.equalsIgnoreCase``, and
``\\s*,\\s*`` as Java's Pattern understands it.
"""

import math
import re
import unicodedata
from decimal import Decimal
from typing import Final

_TRIMMED: Final = "".join(map(chr, range(0x21)))
_INTEGER: Final = re.compile(r"([+-]?)(\d+)")
_BEYOND_UTF_16: Final = re.compile(r"[\U00010000-\U0010ffff]")
_DIGITS_MAX: Final = 19
_NUMBER: Final = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_HEX_NUMBER: Final = (
    r"0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+"
)
_DOUBLE: Final = re.compile(
    rf"[+-]?(?:(?P<odd>NaN|Infinity)|(?:(?P<hex>{_HEX_NUMBER})|{_NUMBER})[fFdD]?)"
)
_COMMA: Final = re.compile(r"[ \t\n\x0b\f\r]*,[ \t\n\x0b\f\r]*")


def trimmed(text: str) -> str:
    """Without the spaces and control characters at its ends; others stay."""
    return text.strip(_TRIMMED)


def integer(text: str) -> int | None:
    """A whole number of at most 19 digits, of any alphabet; None: it is none."""
    match = _INTEGER.fullmatch(text)
    if match is None or _BEYOND_UTF_16.search(text):
        return None
    digits = "".join(str(unicodedata.decimal(one)) for one in match[2]).lstrip("0")
    return int(match[1] + (digits or "0")) if len(digits) <= _DIGITS_MAX else None


def double(text: str) -> float | None:
    """A number, ``NaN`` and the infinities among them; None: it is none."""
    match = _DOUBLE.fullmatch(text)
    if match is None:
        return None
    if match["hex"] is None:
        return float(text if match["odd"] else text.rstrip("fFdD"))
    try:
        return float.fromhex(text.rstrip("fFdD"))
    except OverflowError:
        return -math.inf if text.startswith("-") else math.inf


def boolean(text: str) -> bool | None:
    """``true`` or ``false`` in any case; None: it is neither."""
    return {"TRUE": True, "FALSE": False}.get(text.upper() if len(text) < 6 else "")


def split_list(text: str) -> tuple[str, ...]:
    """The elements of a list; the empty text has none."""
    return tuple(_COMMA.split(text)) if (text := trimmed(text)) else ()


def shown(value: bool | int | float | str | tuple[str, ...]) -> str:
    """A value as Kafka shows it, however it was spelled."""
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return _java_double(value) if isinstance(value, float) else str(value)


def _java_double(value: float) -> str:
    """With an exponent below a thousandth, and from ten million on."""
    if math.isnan(value) or math.isinf(value):
        return str(value).replace("nan", "NaN").replace("inf", "Infinity")
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    _, digits, shift = Decimal(repr(abs(value))).normalize().as_tuple()
    first, *rest = map(str, digits)
    sign = "-" if value < 0 else ""
    return f"{sign}{first}.{''.join(rest) or 0}E{len(rest) + int(shift)}"
