"""The columns of a table, from the schema in its Delta log. Pure.

Types are written as Spark writes them: ``array<struct<key:string,value:binary>>``.
Source: the Delta transaction log protocol, "Schema Serialization Format".
"""

import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, Field

from admin_api.resources import Shown


class Column(BaseModel):
    """A column of a table."""

    name: Shown = Field(description="Its name.", examples=["offset"])
    type: Shown = Field(description="As Spark writes it.", examples=["bigint"])
    nullable: bool = Field(description="Whether a row may have none.")
    comment: Shown | None = Field(
        description="What it is, by whoever made it or said so last.",
        examples=["Name of the topic"],
    )


_SQL_NAMES = {
    "long": "bigint",
    "integer": "int",
    "short": "smallint",
    "byte": "tinyint",
}


def columns_of(schema_string: str) -> list[Column]:
    """The columns; none if the schema cannot be understood."""
    try:
        fields = json.loads(schema_string)["fields"]
        return [
            Column(
                name=field["name"],
                type=_type(field["type"]),
                nullable=field.get("nullable") is not False,
                comment=_comment(field.get("metadata")),
            )
            for field in fields
        ]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return []


def _comment(said: Any) -> str | None:
    """What a column's metadata says of it; any of its keys may be an owner's."""
    found = said.get("comment") if isinstance(said, Mapping) else None
    return found if isinstance(found, str) else None


def _type(kind: str | Mapping[str, Any]) -> str:
    if isinstance(kind, str):
        return _SQL_NAMES.get(kind, kind)
    if kind["type"] == "array":
        return f"array<{_type(kind['elementType'])}>"
    if kind["type"] == "map":
        return f"map<{_type(kind['keyType'])},{_type(kind['valueType'])}>"
    fields = (f"{field['name']}:{_type(field['type'])}" for field in kind["fields"])
    return f"{kind['type']}<{','.join(fields)}>"
