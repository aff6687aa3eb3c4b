"""Thrift's binary protocol, as much of it as calls of a metastore are made of. Pure.

Decoded, a struct is {field id: value}, whatever its fields are called; a text is bytes.
Encoded, each function gives the bytes of one value and ``field`` puts a value in a
struct: the encoding has no lengths, so a struct is its fields and a zero.

Source: Apache Thrift, "Thrift Binary protocol encoding", strict messages.
"""

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

MESSAGE_BYTES_MAX: Final = 1 << 20
"""Of a call: the names of tables that are asked for at once are most of it."""
DEPTH_MAX: Final = 16

BOOL, BYTE, DOUBLE, I16, I32, I64 = 2, 3, 4, 6, 8, 10
STRING, STRUCT, MAP, SET, LIST = 11, 12, 13, 14, 15
_VERSION: Final = 0x80010000
_CALL, _REPLY, _EXCEPTION, _ONEWAY = 1, 2, 3, 4
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


class _Incomplete(Exception):
    """There is more to come."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call: what is asked for, the number of the question, its arguments."""

    name: str
    number: int
    arguments: Mapping[int, Any]
    size: int
    """Bytes that it took."""
    wants_answer: bool = True


def decode_call(received: bytes | bytearray) -> Call | None:
    """The first call in what was received; None if it is not there as a whole.

    Raises NotThrift.
    """
    reader = _Reader(received)
    try:
        return reader.call()
    except _Incomplete:
        if len(received) >= MESSAGE_BYTES_MAX:
            raise NotThrift(f"a call of more than {MESSAGE_BYTES_MAX} bytes") from None
        return None


class _Reader:
    def __init__(self, received: bytes | bytearray) -> None:
        self._received = received
        self._at = 0

    def call(self) -> Call:
        head = self._integer(I32) & 0xFFFFFFFF
        kind = head & 0xFF
        if head & 0xFFFFFF00 != _VERSION or kind not in (_CALL, _ONEWAY):
            raise NotThrift("not a strict call of Thrift's binary protocol")
        name = self._bytes().decode("utf-8", "replace")
        number = self._integer(I32)
        arguments = self._struct(0)
        return Call(name, number, arguments, self._at, kind == _CALL)

    def _take(self, count: int) -> bytes:
        if not 0 <= count <= MESSAGE_BYTES_MAX:
            raise NotThrift(f"a value of {count} bytes")
        end = self._at + count
        if end > len(self._received):
            raise _Incomplete
        taken = bytes(self._received[self._at : end])
        self._at = end
        return taken

    def _fixed(self, kind: int) -> Any:
        form = _FIXED[kind]
        return form.unpack(self._take(form.size))[0]

    def _integer(self, kind: int) -> int:
        return int(self._fixed(kind))

    def _bytes(self) -> bytes:
        return self._take(self._integer(I32))

    def _value(self, kind: int, depth: int) -> Any:
        if depth > DEPTH_MAX:
            raise NotThrift("values lie too deep in each other")
        if kind in _FIXED:
            return self._fixed(kind)
        if kind == STRING:
            return self._bytes()
        if kind == STRUCT:
            return self._struct(depth)
        if kind in (LIST, SET):
            inner = self._integer(BYTE)
            return [self._value(inner, depth + 1) for _ in range(self._count())]
        if kind == MAP:
            return self._map(depth)
        raise NotThrift(f"a value of type {kind}")

    def _map(self, depth: int) -> list[tuple[Any, Any]]:
        """As pairs: a key may be anything."""
        kinds = self._integer(BYTE), self._integer(BYTE)
        return [
            (self._value(kinds[0], depth + 1), self._value(kinds[1], depth + 1))
            for _ in range(self._count())
        ]

    def _count(self) -> int:
        """Of what takes a byte each at least."""
        count = self._integer(I32)
        if not 0 <= count <= MESSAGE_BYTES_MAX:
            raise NotThrift(f"{count} values")
        return count

    def _struct(self, depth: int) -> dict[int, Any]:
        found = {}
        while kind := self._integer(BYTE):
            number = self._integer(I16)
            found[number] = self._value(kind, depth + 1)
        return found


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
