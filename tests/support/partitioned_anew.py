"""An owner writes a DataFrame over a table, with overwriteSchema, and with no, or
another, partitionBy or columns of other types: the entry, as Spark commits it, without
the rows."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lakehouse.log.delta_log import entry_path, load


def partition_anew(path: str, columns: list[str]) -> None:
    """The table holds nothing any more, and is partitioned by ``columns``."""
    _write_over(path, {"partitionColumns": columns})


def columns_anew(path: str, change: Callable[[list[Any]], object]) -> None:
    """The table holds nothing any more, and has the columns that it was made with, as
    ``change`` leaves them."""
    schema = json.loads(_made(path)["schemaString"])
    change(schema["fields"])
    _write_over(path, {"schemaString": json.dumps(schema)})


def _made(path: str) -> dict[str, Any]:
    first = map(json.loads, Path(entry_path(path, 0)).read_text().splitlines())
    (metadata,) = (action["metaData"] for action in first if "metaData" in action)
    return dict(metadata)


def _write_over(path: str, said: dict[str, Any]) -> None:
    table = load(path)
    actions = [
        {"commitInfo": {"operation": "WRITE"}},
        {"metaData": _made(path) | said},
        *({"remove": {"path": file, "dataChange": True}} for file in table.files),
    ]
    text = "\n".join(map(json.dumps, actions))
    Path(entry_path(path, table.version + 1)).write_text(text)
