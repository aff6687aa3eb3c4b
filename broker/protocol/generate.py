"""Message classes and the table of APIs, written from the definitions.

Generated so that an editor, a type checker and a reader see plain dataclasses; checked
in so that nobody has to run anything. A test generates them again and compares. Nothing
imports this module but that test and `infra/generate_messages.py`, which writes what
`render` returns.
"""

import re
from collections.abc import Iterable

from broker.protocol.schema import (
    UNBOUNDED,
    Definition,
    Field,
    Struct,
    default_of,
    structs,
)

_PYTHON_TYPES = {
    "float64": "float",
    "bool": "bool",
    "string": "str",
    "bytes": "bytes",
    "uuid": "bytes",
    "records": "Buffer",
}


def snake(name: str) -> str:
    """`OffsetForLeaderEpoch` -> `offset_for_leader_epoch`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def render(definitions: Iterable[Definition]) -> dict[str, str]:
    """The text of every generated file, by its path below this package."""
    ordered = sorted(definitions, key=lambda d: d.key)
    files = {f"messages/{snake(d.name)}.py": _messages(d) for d in ordered}
    files["api_keys.py"] = _api_keys(ordered)
    return files


def _messages(definition: Definition) -> str:
    module = snake(definition.name)
    classes = [
        _class(struct, definition)
        for struct in structs([definition.request, definition.response])
    ]
    body = "\n\n".join(classes)
    names = [n for n in ("Buffer", "Records") if re.search(rf": {n}\b", body)]
    dataclass = "dataclass, field" if "field(" in body else "dataclass"
    imports = [
        f"from dataclasses import {dataclass}",
        "from typing import ClassVar",
        "",
        "from broker.protocol.api_keys import ApiKey",
    ]
    if names:
        imports.append(f"from broker.protocol.buffers import {', '.join(names)}")
    head = f'"""Generated from definitions/{module}.py: do not edit."""\n\n'
    return head + "\n".join(imports) + "\n\n\n" + body


def _class(struct: Struct, definition: Definition) -> str:
    lines = ["@dataclass(slots=True)", f"class {struct.name}:"]
    messages = {definition.request.name, definition.response.name}
    if struct.name in messages:
        key = snake(definition.name).upper()
        lines.append(f"    API_KEY: ClassVar[ApiKey] = ApiKey.{key}")
        if struct.fields:
            lines.append("")
    answers = struct in structs([definition.response])
    lines += [_attribute(f, answers) for f in struct.fields]
    return "\n".join(lines) + "\n"


def _attribute(field: Field, answers: bool) -> str:
    python = _python_type(field)
    annotation = f"list[{python}]" if field.array else python
    if field.type == "records" and answers:
        annotation = "Records"
    elif field.nullable or field.optional:
        annotation += " | None"
    line = f"    {field.name}: {annotation} = {_default(field)}"
    if len(line) <= 88:
        return line
    left, _, right = line.rpartition("(")
    return f"{left}(\n        {right[:-1]}\n    )"


def _python_type(field: Field) -> str:
    if isinstance(field.type, Struct):
        return field.type.name
    return _PYTHON_TYPES.get(field.type, "int")


def _default(field: Field) -> str:
    default = default_of(field)
    if default == "[]":
        return "field(default_factory=list)"
    if isinstance(field.type, Struct) and default != "None":
        return f"field(default_factory={field.type.name})"
    return "bytes(16)" if default == "NO_UUID" else default


def _api_keys(definitions: list[Definition]) -> str:
    keys, versions, flexible = [], [], []
    for d in definitions:
        name = snake(d.name).upper()
        keys.append(f"    {name} = {d.key}")
        first = f"{d.versions.start}, " if d.versions.start else ""
        versions.append(f"    ApiKey.{name}: range({first}{d.versions.stop}),")
        if d.flexible_from is not None:
            flexible.append(f"    ApiKey.{name}: {d.flexible_from},")
    return _API_KEYS.format(
        keys="\n".join(keys),
        versions="\n".join(versions),
        flexible="\n".join(flexible),
        never=UNBOUNDED,
    )


_API_KEYS = '''"""Generated from definitions/: the APIs, their versions. Do not edit."""

from enum import IntEnum


class ApiKey(IntEnum):
    """The APIs that are described here, by Kafka's names and numbers."""

{keys}

    @property
    def versions(self) -> range:
        """The versions that have a definition; which are served is told elsewhere."""
        return VERSIONS[self]

    def flexible(self, version: int) -> bool:
        """Whether a version uses compact lengths and tagged fields (KIP-482)."""
        return version >= FIRST_FLEXIBLE.get(self, {never})


VERSIONS: dict[int, range] = {{
{versions}
}}

# SaslHandshake and OffsetDelete never became flexible.
FIRST_FLEXIBLE: dict[int, int] = {{
{flexible}
}}
'''
