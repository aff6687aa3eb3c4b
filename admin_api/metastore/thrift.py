"""Thrift's binary protocol, as much of it as calls of a metastore are made of. Pure.

Decoded, a struct is {field id: value}, whatever its fields are called; a text is bytes.
Encoded, each function gives the bytes of one value and ``field`` puts a value in a
struct: the encoding has no lengths, so a struct is its fields and a zero.

Source: Apache Thrift, "Thrift Binary protocol encoding", strict messages.
"""

import struct
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

MESSAGE_BYTES_MAX: Final = 1 << 20
"""Of a call: the names of tables that are asked for at once are most of it."""
VALUES_MAX: Final = 50_000
"""Of a call: what is not nothing takes a microsecond or two to take apart."""
DEPTH_MAX: Final = 16

BOOL, BYTE, DOUBLE, I16, I32, I64 = 2, 3, 4, 6, 8, 10
STRING, STRUCT, MAP, SET, LIST = 11, 12, 13, 14, 15
_VERSION: Final = 0x80010000
_CALL, _REPLY, _EXCEPTION, _ONEWAY = 1, 2, 3, 4
T = TypeVar("T")
Coming = Generator[None, None, T]
"""Gives a T once all of it has come."""
_FIXED: Final = {
    BOOL: struct.Struct(">?"),
    BYTE: struct.Struct(">b"),
    DOUBLE: struct.Struct(">d"),
    I16: struct.Struct(">h"),
    I32: struct.Struct(">i"),
    I64: struct.Struct(">q"),
}


class NotThrift(Exception):
    """What came is no call in this protocol: the connection cannot go on."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call: what is asked for, the number of the question, its arguments."""

    name: str
    number: int
    arguments: Mapping[int, Any]
    size: int
    """Bytes that it took."""
    wants_answer: bool = True


class Calls:
    """Calls out of bytes as they come; each byte is looked at once.

    What is looked through again with each piece costs whoever serves a thousand times
    what it costs to send it, byte by byte.
    """

    def __init__(self) -> None:
        self._received = bytearray()
        self._coming: Coming[Call] | None = None

    @property
    def is_begun(self) -> bool:
        """Whether there is the beginning of a call, and not its end."""
        return bool(self._received)

    def feed(self, more: bytes | bytearray) -> None:
        """Take in what came."""
        self._received += more

    def next(self) -> Call | None:
        """The next call; None if it is not there as a whole. Raises NotThrift."""
        if self._coming is None:
            self._coming = _Reader(self._received).call()
        try:
            next(self._coming)
        except StopIteration as whole:
            call: Call = whole.value
            del self._received[: call.size]
            self._coming = None
            return call
        return None


class _Reader:
    """Reads one call; yields where more has to come first."""

    def __init__(self, received: bytearray) -> None:
        self._received = received
        self._at = 0
        self._values = 0

    def call(self) -> "Coming[Call]":
        head = (yield from self._integer(I32)) & 0xFFFFFFFF
        kind = head & 0xFF
        if head & 0xFFFFFF00 != _VERSION or kind not in (_CALL, _ONEWAY):
            raise NotThrift("not a strict call of Thrift's binary protocol")
        name = (yield from self._bytes()).decode("utf-8", "replace")
        number = yield from self._integer(I32)
        arguments = yield from self._struct(0)
        return Call(name, number, arguments, self._at, kind == _CALL)

    def _take(self, count: int) -> "Coming[bytes]":
        end = self._at + count
        if count < 0 or end > MESSAGE_BYTES_MAX:
            raise NotThrift(f"a value of {count} bytes, or a call that is too long")
        while end > len(self._received):
            yield
        taken = bytes(self._received[self._at : end])
        self._at = end
        return taken

    def _fixed(self, kind: int) -> "Coming[Any]":
        form = _FIXED[kind]
        return form.unpack((yield from self._take(form.size)))[0]

    def _integer(self, kind: int) -> "Coming[int]":
        return int((yield from self._fixed(kind)))

    def _bytes(self) -> "Coming[bytes]":
        return (yield from self._take((yield from self._integer(I32))))

    def _value(self, kind: int, depth: int) -> "Coming[Any]":
        self._values += 1
        if depth > DEPTH_MAX or self._values > VALUES_MAX:
            raise NotThrift("values too deep in each other, or too many")
        if kind in _FIXED:
            return (yield from self._fixed(kind))
        if kind == STRING:
            return (yield from self._bytes())
        if kind == STRUCT:
            return (yield from self._struct(depth))
        if kind in (LIST, SET):
            return (yield from self._list(depth))
        if kind == MAP:
            return (yield from self._map(depth))
        raise NotThrift(f"a value of type {kind}")

    def _list(self, depth: int) -> "Coming[list[Any]]":
        kind = yield from self._integer(BYTE)
        count = yield from self._integer(I32)
        found = []
        for _ in range(_checked(count)):
            one = yield from self._value(kind, depth + 1)
            found.append(one)
        return found

    def _map(self, depth: int) -> "Coming[list[tuple[Any, Any]]]":
        """As pairs: a key may be anything."""
        of_key = yield from self._integer(BYTE)
        of_value = yield from self._integer(BYTE)
        count = yield from self._integer(I32)
        found = []
        for _ in range(_checked(count)):
            key = yield from self._value(of_key, depth + 1)
            found.append((key, (yield from self._value(of_value, depth + 1))))
        return found

    def _struct(self, depth: int) -> "Coming[dict[int, Any]]":
        found = {}
        while kind := (yield from self._integer(BYTE)):
            number = yield from self._integer(I16)
            found[number] = yield from self._value(kind, depth + 1)
        return found


def _checked(count: int) -> int:
    if not 0 <= count <= VALUES_MAX:
        raise NotThrift(f"{count} values")
    return count


def text(value: str) -> bytes:
    """A string; what is no Unicode becomes a question mark."""
    encoded = value.encode("utf-8", "replace")
    return struct.pack(">i", len(encoded)) + encoded


def integer(value: int) -> bytes:
    """An i32."""
    return struct.pack(">i", value)


def flag(value: bool) -> bytes:
    return struct.pack(">?", value)


def many(kind: int, values: Iterable[bytes]) -> bytes:
    """A list of values of one type."""
    encoded = list(values)
    return struct.pack(">bi", kind, len(encoded)) + b"".join(encoded)


def texts(values: Iterable[str]) -> bytes:
    """A list of strings."""
    return many(STRING, map(text, values))


def pairs(said: Mapping[str, str]) -> bytes:
    """A map of strings to strings."""
    head = struct.pack(">bbi", STRING, STRING, len(said))
    return head + b"".join(text(key) + text(value) for key, value in said.items())


def field(kind: int, number: int, value: bytes) -> bytes:
    """A field of a struct."""
    return struct.pack(">bh", kind, number) + value


def record(*fields: bytes) -> bytes:
    """A struct."""
    return b"".join(fields) + b"\0"


def reply(call: Call, result: bytes) -> bytes:
    """The answer to a call: a struct whose field 0 is what it gives, another one what
    it raises."""
    return _message(_REPLY, call, result)


def refusal(call: Call, why: str) -> bytes:
    """The answer to a call that nobody knows."""
    unknown_method = 1
    said = record(field(STRING, 1, text(why)), field(I32, 2, integer(unknown_method)))
    return _message(_EXCEPTION, call, said)


def _message(kind: int, call: Call, body: bytes) -> bytes:
    head = struct.pack(">I", _VERSION | kind)
    return head + text(call.name) + integer(call.number) + body
