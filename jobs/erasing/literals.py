"""The values that an expression of Spark's SQL names: what its author looked for.

The problem: what ``value LIKE '%anna%'`` erased may still be quoted in the log of the
table, where its owner had written ``DELETE ... WHERE value LIKE '%anna@x.org%'``;
nobody can ask a log for an expression. The idea: the expression's own literals are
what is personal in it. They are taken out of its text, strings as Spark reads them,
patterns in their parts between the wildcards. What is compared with a record's place
alone (its offset, partition or time) says nothing of anybody, and is passed over.

The price: what an expression computes (``concat('an', 'na')``) is not looked for, nor
what a regular expression stands for.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

PLACES: Final = frozenset({"offset", "partition", "timestamp", "timestamptype"})
TOKEN: Final = re.compile(
    r"""
    (?P<skip>\s+|--[^\n]*|/\*.*?\*/)
    |(?P<hex>[xX](?:'[0-9a-fA-F]*'|"[0-9a-fA-F]*"))
    |(?P<raw>[rR](?:'[^']*'|"[^"]*"))
    |(?P<string>(?:'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"))
    |(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?:[a-zA-Z]{1,2}\b)?
    |(?P<name>`(?:[^`]|``)*`|[^\W\d]\w*)
    |(?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(
    r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))", re.DOTALL
)
_CONTROLS: Final = {
    "0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a",
    "%": "\\%", "_": "\\_",
}  # fmt: skip
_LIKE: Final = frozenset({"like", "ilike"})
_SEARCHES: Final = frozenset(
    {
        "charindex", "contains", "endswith", "instr", "locate", "position", "regexp",
        "regexp_like", "rlike", "split", "startswith", "substring_index",
    }
)  # fmt: skip
"""Where one of them is called, a string may be a part of what was looked for."""
_JSON_PATH: Final = re.compile(r"\$[.\[]")
"""Where something stands in a value, whosever that is."""


class Literal(NamedTuple):
    """A value: its bytes, and whether more may stand directly before and behind it."""

    value: bytes
    is_open_before: bool = False
    is_open_behind: bool = False


def literals(expression: str) -> list[Literal]:
    """Strings, binaries and numbers in an expression, each once, but for those that
    are compared with a record's place."""
    found: dict[Literal, None] = {}
    tokens = list(_tokens(expression))
    searches = any(kind == "name" and text in _SEARCHES for kind, text in tokens)
    at = patterns_end = 0
    while at < len(tokens):
        kind, text = tokens[at]
        is_field = at > 0 and tokens[at - 1][1] in {".", ":"}
        if kind == "name" and text in PLACES and not is_field:
            at = _behind_comparison(tokens, at + 1)
            continue
        if kind == "name" and text in _LIKE:
            patterns_end = _behind_patterns(tokens, at + 1)
        is_pattern = at < patterns_end
        for one in _literals_of(kind, text, is_pattern=is_pattern):
            is_part = searches and kind == "string"
            found[one._replace(is_open_before=True, is_open_behind=True)
                  if is_part else one] = None  # fmt: skip
        at += 1
    return list(found)


def _tokens(expression: str) -> Iterator[tuple[str, str]]:
    """(Kind, text) of each; names in small letters, without quotes."""
    for match in TOKEN.finditer(expression):
        kind = match.lastgroup or "other"
        if kind == "name":
            yield kind, match["name"].strip("`").lower()
        elif kind != "skip":
            yield kind, match[kind]


def _behind_patterns(tokens: list[tuple[str, str]], at: int) -> int:
    """Where ends what stands behind LIKE: one pattern, or those in brackets behind ANY,
    ALL or SOME."""
    if at == len(tokens) or tokens[at][1] not in {"any", "all", "some"}:
        return at + 2
    depth = 0
    for end in range(at + 1, len(tokens)):
        text = tokens[end][1]
        depth += (text == "(") - (text == ")")
        if depth == 0:
            return end
    return len(tokens)


def _behind_comparison(tokens: list[tuple[str, str]], at: int) -> int:
    """Where what a place is compared with ends; ``at`` if it is with nothing."""
    start = at
    while at < len(tokens) and tokens[at][1] in {"<", ">", "=", "!", "not"}:
        at += 1
    word = tokens[at][1] if at < len(tokens) else ""
    if word == "in":
        while at < len(tokens) and tokens[at][1] != ")":
            at += 1
        return at
    if word == "between":
        return _behind_value(tokens, _behind_value(tokens, at + 1) + 1)
    return start if at == start else _behind_value(tokens, at)


def _behind_value(tokens: list[tuple[str, str]], at: int) -> int:
    """Behind one literal, which a type may stand before, as in ``TIMESTAMP '...'``."""
    while at < len(tokens) and tokens[at][1] in {"-", "+", "timestamp", "date"}:
        at += 1
    is_literal = at < len(tokens) and tokens[at][0] in {"string", "number", "raw"}
    return at + is_literal


def _literals_of(kind: str, text: str, *, is_pattern: bool) -> Iterator[Literal]:
    if kind == "hex":
        digits = text[2:-1]
        yield from _if_any(Literal(bytes.fromhex(digits.zfill(len(digits) + 1 & ~1))))
    elif kind == "number":
        yield Literal(text.encode())
    elif kind in {"string", "raw"}:
        value = text[2:-1] if kind == "raw" else _unescaped(text)
        if is_pattern:
            yield from _parts(value)
        elif not _JSON_PATH.match(value):
            plain = value.replace("\\%", "%").replace("\\_", "_")
            yield from _if_any(Literal(plain.encode(errors="surrogatepass")))


def _parts(pattern: str) -> Iterator[Literal]:
    """What stands between the wildcards of a pattern."""
    parts = re.split(r"(?<!\\)[%_]", pattern)
    for number, part in enumerate(parts):
        value = re.sub(r"\\([%_\\])", r"\1", part).encode(errors="surrogatepass")
        yield from _if_any(Literal(value, number > 0, number < len(parts) - 1))


def _if_any(one: Literal) -> Iterator[Literal]:
    if one.value.strip():
        yield one


def _unescaped(quoted: str) -> str:
    """The value of a string as Spark reads it."""
    quote = quoted[0]
    inside = quoted[1:-1].replace(quote * 2, quote)

    def plain(match: re.Match[str]) -> str:
        four, eight, octal, other = match.groups()
        if four or eight:
            code = int(four or eight, 16)
            return chr(code) if code <= 0x10FFFF else match[0]
        return chr(int(octal, 8)) if octal else _CONTROLS.get(other, other)

    return _ESCAPE.sub(plain, inside)
