"""Definitions read: from the compact texts to fields, structures and versions.

Everything else in this package derives from the definitions: the message classes, the
table of APIs and the codecs. The notation is described in `definitions/__init__.py`.
Reading one costs about a millisecond, so it happens when an API is first used.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module

# Types of fixed size, with their `struct` formats (big-endian, no padding).
FIXED = {
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "int64": "q",
    "float64": "d",
    "bool": "?",
    "uuid": "16s",
}
PRIMITIVES = {*FIXED, "string", "bytes", "records"}
NO_UUID = bytes(16)

_ZEROS = {
    "float64": "0.0",
    "bool": "False",
    "uuid": "NO_UUID",
    "string": '""',
    "bytes": 'b""',
    "records": 'b""',
}
UNBOUNDED = 1 << 15

_HEAD = re.compile(r"(\w+)  key (\d+)  versions ([\d-]+)  flexible (\S+)")
_FIELD = re.compile(
    r"(?P<indent> +)(?P<name>\w+) +(?P<versions>[\d+-]+) +"
    r"(?P<array>\[\])?(?P<type>\w+)(?P<null>\?[\d+-]*)?"
    r"(?: += (?P<default>\S+))?(?: +tag (?P<tag>\d+))?"
)


@dataclass(frozen=True, slots=True)
class Struct:
    """A message or a part of one: its class name and its fields, in wire order."""

    name: str
    fields: "tuple[Field, ...]"

    def at(self, version: int) -> "Iterator[Field]":
        """The fields of a version that stand in a row."""
        return (f for f in self.fields if version in f.versions and f.tag is None)

    def tagged_at(self, version: int) -> "list[Field]":
        """The tagged fields of a version, by rising tag."""
        tagged = [f for f in self.fields if version in f.versions and f.tag is not None]
        return sorted(tagged, key=lambda f: f.tag or 0)

    def is_brief(self, version: int) -> bool:
        """Whether it has no arrays in a version, nor has any part of it."""
        return not any(
            field.array
            or (isinstance(field.type, Struct) and not field.type.is_brief(version))
            for field in self.fields
            if version in field.versions
        )


@dataclass(frozen=True, slots=True)
class Field:
    """One field: `type` is a primitive or a structure, `array` says whether many."""

    name: str
    versions: range
    type: str | Struct
    array: bool
    null_versions: range
    default: str | None
    tag: int | None

    @property
    def nullable(self) -> bool:
        """Whether None is a value of the field, in some version."""
        return len(self.null_versions) > 0

    @property
    def optional(self) -> bool:
        """Whether absence is told by None: a tagged structure that was not said."""
        return self.tag is not None and isinstance(self.type, Struct) and not self.array


@dataclass(frozen=True, slots=True)
class Definition:
    """One API: its key, its versions and its two messages."""

    name: str
    key: int
    versions: range
    flexible_from: int | None
    request: Struct
    response: Struct

    def flexible(self, version: int) -> bool:
        return self.flexible_from is not None and version >= self.flexible_from


@cache
def definition(module: str) -> Definition:
    """The definition of an API, by its snake name: that of its module."""
    text: str = import_module(f"broker.protocol.definitions.{module}").DEFINITION
    return parse(text)


def parse(text: str) -> Definition:
    """Read one definition.

    Raises:
        AssertionError: the text is not in the notation: a mistake of ours.
    """
    head, *blocks = text.strip("\n").split("\n\n")
    match = _HEAD.fullmatch(head)
    assert match is not None, f"not a head: {head!r}"
    name, key, versions, flexible = match.groups()
    assert len(blocks) == 2, f"{name}: a request and a response"
    known: dict[str, Struct] = {}
    request, response = (_message(block.splitlines(), known) for block in blocks)
    assert (request.name, response.name) == (f"{name}Request", f"{name}Response")
    flexible_from = None if flexible == "none" else _versions(flexible).start
    return Definition(
        name, int(key), _versions(versions), flexible_from, request, response
    )


def structs(messages: Iterable[Struct]) -> list[Struct]:
    """All structures of some messages, each once, those used by others first."""
    found: dict[str, Struct] = {}

    def visit(struct: Struct) -> None:
        for field in struct.fields:
            if isinstance(field.type, Struct):
                visit(field.type)
        assert found.setdefault(struct.name, struct) == struct, struct.name

    for message in messages:
        visit(message)
    return list(found.values())


def default_of(field: Field) -> str:
    """The value of a field that was not said, as a Python expression."""
    if field.optional or field.default == "null":
        return "None"
    if field.array:
        return "[]"
    if isinstance(field.type, Struct):
        return f"{field.type.name}()"
    if field.default is None:
        return _zero(field)
    return field.default.title() if field.type == "bool" else field.default


def _zero(field: Field) -> str:
    if field.type == "records" and field.nullable:
        return "None"
    return _ZEROS.get(str(field.type), "0")


def _message(lines: list[str], known: dict[str, Struct]) -> Struct:
    return Struct(lines[0], _fields(lines[1:], 2, known))


def _fields(
    lines: list[str], indent: int, known: dict[str, Struct]
) -> tuple[Field, ...]:
    fields = []
    at = 0
    while at < len(lines):
        match = _FIELD.fullmatch(lines[at])
        assert match is not None, f"not a field: {lines[at]!r}"
        assert len(match["indent"]) == indent, f"indented wrongly: {lines[at]!r}"
        stop = at + 1
        while stop < len(lines) and lines[stop].startswith(" " * (indent + 2)):
            stop += 1
        fields.append(_field(match, lines[at + 1 : stop], indent + 2, known))
        at = stop
    return tuple(fields)


def _field(
    match: re.Match[str], below: list[str], indent: int, known: dict[str, Struct]
) -> Field:
    versions = _versions(match["versions"])
    type_: str | Struct = match["type"]
    if match["type"] not in PRIMITIVES:
        if below:
            known[match["type"]] = Struct(match["type"], _fields(below, indent, known))
        type_ = known[match["type"]]
    null_versions = range(0)
    if match["null"] is not None:
        null_versions = _versions(match["null"][1:]) if match["null"][1:] else versions
    tag = None if match["tag"] is None else int(match["tag"])
    return Field(
        match["name"],
        versions,
        type_,
        match["array"] is not None,
        null_versions,
        match["default"],
        tag,
    )


def _versions(text: str) -> range:
    """`3+`, `3-5` or `3`."""
    if text.endswith("+"):
        return range(int(text[:-1]), UNBOUNDED)
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)
