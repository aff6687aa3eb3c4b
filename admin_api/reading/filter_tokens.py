"""The words of a filter. Pure.

A text of bounded length is cut into tokens by one regular expression without nested
repetition, so it takes time in proportion to its length.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

LENGTH_MAX: Final = 2_000
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r"}
_TOKEN: Final = re.compile(
    r"""\s*(?:
        (?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
      | (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
      | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<sign>==|!=|<=|>=|&&|\|\||[<>!()\[\].])
      | (?P<end>\Z)
    )""",
    re.VERBOSE | re.ASCII | re.DOTALL,
)


class FilterError(Exception):
    """A text is no filter; the message says where it stops being one."""


class Token(NamedTuple):
    kind: str
    text: str
    at: int


def tokens(text: str) -> Iterator[Token]:
    """The tokens of a filter, and one of kind ``end``. Raises FilterError."""
    if len(text) > LENGTH_MAX:
        raise FilterError(f"it is longer than {LENGTH_MAX} characters")
    position = 0
    while True:
        match = _TOKEN.match(text, position)
        if match is None:
            rest = text[position:].lstrip()[:20]
            raise FilterError(f"at {position}: {rest!r} is nothing that is known")
        kind = match.lastgroup or "end"
        yield Token(kind, match[kind], match.start(kind))
        if kind == "end":
            return
        position = match.end()


def text_of(token: Token) -> str:
    """The text that a quoted token stands for."""
    inner = token.text[1:-1]
    return re.sub(r"\\(.)", _escaped, inner, flags=re.DOTALL)


def number_of(token: Token) -> int | float:
    """The number that a token stands for."""
    return int(token.text) if token.text.lstrip("-").isdigit() else float(token.text)


def _escaped(match: "re.Match[str]") -> str:
    return _ESCAPES.get(match[1], match[1])
