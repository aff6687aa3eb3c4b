"""A small closed language that says which records are wanted; nothing is executed.

    value.user.country == "CH" && !(key startsWith "x-") && timestamp >= 1700000000000

    or:       and ("||" and)*
    and:      not ("&&" not)*
    not:      "!" not | "(" or ")" | comparison
    compared: operand [operator operand]
    operator: == != < <= > >= contains startsWith endsWith
    operand:  number | "text" | 'text' | true | false | null | field
    field:    partition | offset | timestamp | key path | value path | headers["name"]
    path:     (.name | ["name"] | [number])*

``key`` and ``value`` are their text, with a path what is there in their JSON; a header
is the text of the last one of that name. What is not there, or is no text, is null. A
number equals a number, a text a text, and so on; what cannot be compared is false, as
are objects and arrays. An operand alone is true if it is the boolean true.

Length and depth of a filter are bounded, and so is the work for one record.
"""

import json
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from admin_api.reading.filter_tokens import (
    FilterError,
    Token,
    number_of,
    text_of,
    tokens,
)

DEPTH_MAX: Final = 32
JSON_BYTES_MAX: Final = 1 << 20
"""What is longer is not looked into."""


@dataclass(frozen=True)
class Subject:
    """What a filter sees of a record."""

    partition: int
    offset: int
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: Mapping[str, bytes | None]

    @cached_property
    def key_text(self) -> str | None:
        """The key as text; None if it is none."""
        return _text(self.key)

    @cached_property
    def value_text(self) -> str | None:
        """The value as text; None if it is none."""
        return _text(self.value)

    @cached_property
    def key_json(self) -> Any:
        """The key as JSON; None if it is none."""
        return _json(self.key)

    @cached_property
    def value_json(self) -> Any:
        """The value as JSON; None if it is none."""
        return _json(self.value)


Get = Callable[[Subject], Any]
Predicate = Callable[[Subject], bool]
Step = str | int


def compile_filter(text: str) -> Predicate:
    """Whether a record is wanted; all of them are by an empty text.

    Raises FilterError where ``text`` is no filter.
    """
    if not text.strip():
        return lambda _: True
    parser = _Parser(tokens(text))
    found = parser.either(0)
    parser.expect("end")
    return found


class _Parser:
    """Recursive descent; each level of parentheses and negations counts."""

    def __init__(self, found: Iterator[Token]) -> None:
        self._rest = found
        self._next = next(found)

    def either(self, depth: int) -> Predicate:
        parts = [self._both(depth)]
        while self._take("||"):
            parts.append(self._both(depth))
        return parts[0] if len(parts) == 1 else lambda s: any(p(s) for p in parts)

    def _both(self, depth: int) -> Predicate:
        parts = [self._negated(depth)]
        while self._take("&&"):
            parts.append(self._negated(depth))
        return parts[0] if len(parts) == 1 else lambda s: all(p(s) for p in parts)

    def _negated(self, depth: int) -> Predicate:
        if depth == DEPTH_MAX:
            raise FilterError(f"it is nested more than {DEPTH_MAX} levels deep")
        if self._take("!"):
            inner = self._negated(depth + 1)
            return lambda s: not inner(s)
        if self._take("("):
            inner = self.either(depth + 1)
            self.expect(")")
            return inner
        return self._comparison()

    def _comparison(self) -> Predicate:
        left = self._operand()
        compare = _OPERATORS.get(self._next.text)
        if compare is None or self._next.kind not in ("sign", "name"):
            return lambda s: left(s) is True
        self._advance()
        right = self._operand()
        return lambda s: compare(left(s), right(s))

    def _operand(self) -> Get:
        token = self._advance()
        if token.kind == "number":
            number = number_of(token)
            return lambda _: number
        if token.kind == "text":
            text = text_of(token)
            return lambda _: text
        if token.kind == "name" and token.text in _WORDS:
            word = _WORDS[token.text]
            return lambda _: word
        if token.kind == "name" and token.text in _PLAIN:
            return _PLAIN[token.text]
        if token.kind == "name" and token.text == "headers":
            return self._header()
        if token.kind == "name" and token.text in _DOCUMENTS:
            return self._document(token.text)
        raise _unexpected(token, "a field, a number or a text")

    def _header(self) -> Get:
        self.expect("[")
        name = text_of(self.expect("text"))
        self.expect("]")
        return lambda s: _text(s.headers.get(name))

    def _document(self, name: str) -> Get:
        whole, parsed = _DOCUMENTS[name]
        path = tuple(self._path())
        if not path:
            return whole
        return lambda s: _at(parsed(s), path)

    def _path(self) -> Iterator[Step]:
        while True:
            if self._take("."):
                yield self.expect("name").text
            elif self._take("["):
                token = self._advance()
                if token.kind == "text":
                    yield text_of(token)
                elif token.kind == "number" and token.text.isdigit():
                    yield int(token.text)
                else:
                    raise _unexpected(token, "a name in quotes or an index")
                self.expect("]")
            else:
                return

    def expect(self, wanted: str) -> Token:
        """The next token, which is of this kind or has this text."""
        token = self._next
        if wanted != (token.text if token.kind == "sign" else token.kind):
            raise _unexpected(token, "its end" if wanted == "end" else wanted)
        return self._advance()

    def _take(self, sign: str) -> bool:
        if self._next.kind != "sign" or self._next.text != sign:
            return False
        self._advance()
        return True

    def _advance(self) -> Token:
        token, self._next = self._next, next(self._rest, self._next)
        return token


def _unexpected(token: Token, wanted: str) -> FilterError:
    found = "its end" if token.kind == "end" else repr(token.text[:20])
    return FilterError(f"at {token.at}: {found} where {wanted} is due")


def _kind(value: Any) -> type | None:
    """What is comparable with what: a boolean is not a number here."""
    if isinstance(value, bool):
        return bool
    return float if isinstance(value, int | float) else type(value)


def _equal(left: Any, right: Any) -> bool:
    """Objects and arrays equal nothing: comparing them has no bound."""
    kind = _kind(left)
    return kind in _EQUATABLE and kind is _kind(right) and bool(left == right)


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def ordered(left: Any, right: Any) -> bool:
        kind = _kind(left)
        return kind in (float, str) and kind is _kind(right) and compare(left, right)

    return ordered


def _of_texts(compare: Callable[[str, str], bool]) -> Callable[[Any, Any], bool]:
    return lambda left, right: (
        isinstance(left, str) and isinstance(right, str) and compare(left, right)
    )


def _text(data: bytes | None) -> str | None:
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return None


def _json(data: bytes | None) -> Any:
    if data is None or len(data) > JSON_BYTES_MAX:
        return None
    try:
        return json.loads(data, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return None


def _at(found: Any, path: tuple[Step, ...]) -> Any:
    for step in path:
        if isinstance(step, str) and isinstance(found, dict):
            found = found.get(step)
        elif isinstance(step, int) and isinstance(found, list):
            found = found[step] if step < len(found) else None
        else:
            return None
    return found


_EQUATABLE: Final = (str, float, bool, type(None))
_WORDS: Final = {"true": True, "false": False, "null": None}
_PLAIN: Final[dict[str, Get]] = {
    "partition": lambda s: s.partition,
    "offset": lambda s: s.offset,
    "timestamp": lambda s: s.timestamp_ms,
}
_DOCUMENTS: Final[dict[str, tuple[Get, Get]]] = {
    "key": (lambda s: s.key_text, lambda s: s.key_json),
    "value": (lambda s: s.value_text, lambda s: s.value_json),
}
_OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": _equal,
    "!=": lambda left, right: not _equal(left, right),
    "<": _ordered(operator.lt),
    "<=": _ordered(operator.le),
    ">": _ordered(operator.gt),
    ">=": _ordered(operator.ge),
    "contains": _of_texts(lambda left, right: right in left),
    "startsWith": _of_texts(str.startswith),
    "endsWith": _of_texts(str.endswith),
}
