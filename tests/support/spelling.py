"""Rows of ours under names that differ in case alone, as an owner writes them."""

from collections.abc import Collection
from typing import Any, Final

import deltalake
import pyarrow as pa

OTHERWISE: Final = {
    "partition": "PARTITION", "offset": "Offset", "timestamp": "TIMESTAMP",
    "timestampType": "timestamptype", "topic": "Topic", "key": "KEY", "value": "Value",
    "headers": "HEADERS",
}  # fmt: skip
PAIRS: Final = pa.list_(pa.struct([("KEY", pa.string()), ("Value", pa.binary())]))


def otherwise(table: pa.Table, names: Collection[str] = OTHERWISE.keys()) -> Any:
    """The same rows, whose columns of these names are called otherwise; with those of
    headers, the fields in them, too."""
    if "headers" in names:
        at = table.schema.get_field_index("headers")
        found = [
            row and [_pair(one) for one in row] for row in table["headers"].to_pylist()
        ]
        table = table.set_column(at, "headers", pa.array(found, PAIRS))
    return table.rename_columns(
        [OTHERWISE[name] if name in names else name for name in table.column_names]
    )


def _pair(said: dict[str, Any] | None) -> dict[str, Any] | None:
    return said and {"KEY": said["key"], "Value": said["value"]}


def overwrite(path: str, names: Collection[str] = OTHERWISE.keys()) -> None:
    """As an owner does, with what the table has."""
    table = deltalake.DeltaTable(path)
    rows = otherwise(table.to_pyarrow_table(), names)
    by = OTHERWISE["partition"] if "partition" in names else "partition"
    deltalake.write_deltalake(
        table, rows, mode="overwrite", schema_mode="overwrite", partition_by=[by]
    )
