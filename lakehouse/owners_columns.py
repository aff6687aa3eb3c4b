"""The columns that an owner added to a topic's table, as Arrow sees them.

The problem: whoever writes rows of a table anew must keep what its owner put beside
them, and files written before a column was added have not got it. The idea: the table's
own schema says which columns there are and of which types; a file that lacks one has
nulls there.

Source: the Delta transaction log protocol, "Schema Serialization Format".
"""

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa

from lakehouse.column_names import alike, there
from lakehouse.errors import TableUnreadable
from lakehouse.log.actions import NO_PARTITION, reported
from lakehouse.schema import WRITE

_TYPES: Final[Mapping[str, pa.DataType]] = {
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "date": pa.date32(),
    "double": pa.float64(),
    "float": pa.float32(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "short": pa.int16(),
    "string": pa.string(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}
_DECIMAL: Final = re.compile(r"decimal\((\d+), ?(\d+)\)")


@lru_cache(256)
def all_columns(schema_string: str) -> pa.Schema:
    """Our columns, and behind them those that the table has beside them; one of ours
    that it spells otherwise (``Topic``) is among these.

    Raises TableUnreadable if one is of a type that is not known here.
    """
    try:
        fields = json.loads(schema_string)["fields"]
        names = [one["name"] for one in fields]
        mine = [one for one in WRITE if alike(one.name, names) in ([], [one.name])]
        others = [one for one in fields if one["name"] not in WRITE.names]
        found = [pa.field(one["name"], _type(one["type"])) for one in others]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise TableUnreadable(f"its columns cannot be understood: {error!r}") from error
    return pa.schema([*mine, *found])


def wide_enough(columns: pa.Schema, partition: int) -> pa.Schema:
    """The same columns for rows of a partition that an owner's ``partition`` may hold,
    a long, and ours, an int, may not."""
    if partition == NO_PARTITION or reported(partition) == partition:
        return columns
    at = columns.get_field_index("partition")
    return columns.set(at, columns.field(at).with_type(pa.int64()))


def _type(kind: Any) -> pa.DataType:
    if isinstance(kind, str):
        match = _DECIMAL.fullmatch(kind)
        if match is not None:
            return pa.decimal128(int(match[1]), int(match[2]))
        return _TYPES[kind]
    if kind["type"] == "array":
        return pa.list_(_type(kind["elementType"]))
    if kind["type"] == "map":
        return pa.map_(_type(kind["keyType"]), _type(kind["valueType"]))
    if kind["type"] != "struct":
        raise ValueError(f"a column of {kind['type']}")
    return pa.struct([(one["name"], _type(one["type"])) for one in kind["fields"]])


def shaped(table: Any, schema: pa.Schema, partition: int) -> Any:
    """The rows of a file in the columns of ``schema``, whoever wrote it: what it lacks
    is null, but ``partition``, which its place tells.

    Raises pa.ArrowException where a value does not fit.
    """
    rows, arrays = table.num_rows, []
    for field in schema:
        found = there(field.name, table.column_names, schema.names)
        if found:
            column = table.column(found[0])
            fits = column.type == field.type
            arrays.append(column if fits else _cast(column, field))
        elif field.name == "partition":
            value = None if partition == NO_PARTITION else partition
            arrays.append(pa.repeat(pa.scalar(value, field.type), rows))
        else:
            arrays.append(pa.nulls(rows, field.type))
    return pa.table(arrays, schema=schema)


def _cast(column: Any, field: Any) -> Any:
    """A column of another type as one of the table's."""
    if odd := _spelled_otherwise(column.type, field.type):
        raise pa.ArrowInvalid(
            f"column {field.name}: the file calls its field {odd} otherwise"
        )
    return column.cast(field.type)


def _spelled_otherwise(kind: Any, wanted: Any) -> str | None:
    """A field that differs by its case alone, or one inside of it, which a cast would
    make null; None: there is none."""
    pairs = list(zip(_fields(kind), _fields(wanted), strict=False))
    if pa.types.is_struct(kind) and pa.types.is_struct(wanted):
        theirs = {field.name: field for field in _fields(kind)}
        names = [field.name for field in _fields(wanted)]
        for name in names:
            if there(name, theirs, names) not in ([], [name]):
                return str(name)
        pairs = [(theirs[f.name], f) for f in _fields(wanted) if f.name in theirs]
    inside = (_spelled_otherwise(one.type, other.type) for one, other in pairs)
    return next(filter(None, inside), None)


def _fields(kind: Any) -> list[Any]:
    """Those of a struct, or what a list or a map has for its elements."""
    if pa.types.is_map(kind):
        return [kind.key_field, kind.item_field]
    if not pa.types.is_nested(kind):
        return []
    return [kind.field(at) for at in range(kind.num_fields)]
