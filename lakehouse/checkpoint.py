"""A checkpoint of a Delta log: the state of the table at a version, as Parquet.

The problem: a table of a year has half a million log entries, and a start must not read
them all. The idea: the newest checkpoint gives the state at its version. The price:
pyarrow is imported, and only here on the way to following a log.

Classic checkpoints, whole or in parts. The V2 kind is only allowed with a table feature
that makes the table unreadable here anyway.
"""

import os
import re
from collections.abc import Iterable, Iterator
from typing import Any

from lakehouse.actions import Commit, data_file, metadata_of, protocol_of

_NAME = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10}))?\.parquet")
_FIELDS = {
    "add": ("path", "partitionValues", "size", "modificationTime", "stats"),
    "remove": ("path", "deletionTimestamp"),
    "txn": ("appId", "version"),
    "protocol": ("minReaderVersion", "minWriterVersion", "readerFeatures"),
    "metaData": ("id", "partitionColumns", "configuration", "schemaString"),
}


def complete_checkpoints(names: Iterable[str]) -> list[tuple[int, list[str]]]:
    """(version, its files) of each checkpoint that has all its parts, newest first."""
    whole: dict[int, list[str]] = {}
    parts: dict[tuple[int, int], list[str]] = {}
    for name in names:
        match = _NAME.fullmatch(name)
        if match is None:
            continue
        version = int(match[1])
        if match[2] is None:
            whole[version] = [name]
        else:
            parts.setdefault((version, int(match[3])), []).append(name)
    for (version, count), found in parts.items():
        if len(found) == count:
            whole.setdefault(version, sorted(found))
    return sorted(whole.items(), reverse=True)


def read_checkpoint(log_directory: str, version: int, names: list[str]) -> Commit:
    """The state at ``version``, told as one commit that adds everything.

    Raises FileNotFoundError when it was cleaned away, ValueError when it is damaged.
    """
    state = Commit(version)
    for name in names:
        _read_part(os.path.join(log_directory, name), state)
    if state.protocol is None or state.metadata is None:
        raise ValueError(f"checkpoint {version} lacks protocol or metaData")
    return state


def _read_part(path: str, state: Commit) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # Unlike read_table, a ParquetFile never looks at directories beside the file.
        with pq.ParquetFile(path) as file:
            table = file.read(columns=list(_FIELDS), use_threads=False)
    except (pa.ArrowInvalid, OSError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise ValueError(f"{path}: {error}") from error
    for body in _rows(table, "add"):
        state.adds.append(data_file(body))
    for body in _rows(table, "remove"):
        state.removes[body["path"]] = int(body.get("deletionTimestamp") or 0)
    for body in _rows(table, "txn"):
        state.transactions[body["appId"]] = int(body["version"])
    for body in _rows(table, "protocol"):
        state.protocol = protocol_of(body)
    for body in _rows(table, "metaData"):
        state.metadata = metadata_of(body)


def _rows(table: Any, action: str) -> Iterator[dict[str, Any]]:
    """The rows that hold this action, with the fields that matter."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if action not in table.column_names:
        return
    column = table.column(action).combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks)
    held = column.filter(column.is_valid())
    wanted = (*_FIELDS[action], "deletionVector")
    names = [field.name for field in held.type if field.name in wanted]
    values = [pc.struct_field(held, name).to_pylist() for name in names]
    for row in zip(*values, strict=True):
        yield dict(zip(names, row, strict=True))
