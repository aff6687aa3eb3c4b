"""A checkpoint of a Delta log: the state of the table at a version, as Parquet.

The problem: a table of a year has half a million log entries, and a start must not read
them all. The idea: the newest checkpoint gives the state at its version. The price:
pyarrow is imported, and only here on the way to following a log.

Classic checkpoints, whole or in parts, and those of the V2 kind: one file, Parquet or
JSON, which names *sidecars* that hold the files of the table.

Source: the Delta transaction log protocol, "Checkpoints" and "V2 Spec".
"""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import repeat
from typing import Any
from urllib.parse import unquote

from lakehouse.column_names import alike
from lakehouse.log.actions import (
    Commit,
    data_file,
    metadata_of,
    parse_commit,
    protocol_of,
)
from lakehouse.log.checksums import Checksum, NotAsWritten, read_verified
from lakehouse.regular import check_file, open_file

_NAME = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10}))?\.parquet")
_V2_NAME = re.compile(r"(\d{20})\.checkpoint\.[0-9a-fA-F-]{36}\.(?:parquet|json)")
SIDECARS = "_sidecars"
"""The directory of files that checkpoints of the V2 kind name."""
HINT = "_last_checkpoint"
"""The file that names the version of the newest checkpoint."""
_FIELDS = {
    "sidecar": ("path",),
    "add": ("path", "partitionValues", "size", "modificationTime", "stats"),
    "remove": ("path", "deletionTimestamp"),
    "txn": ("appId", "version"),
    "protocol": (
        "minReaderVersion", "minWriterVersion", "readerFeatures", "writerFeatures",
    ),
    "metaData": (
        "id", "name", "description", "partitionColumns", "configuration",
        "schemaString", "createdTime",
    ),
}  # fmt: skip


def complete_checkpoints(names: Iterable[str]) -> list[tuple[int, list[str]]]:
    """(version, its files) of each checkpoint that has all its parts, newest first."""
    whole: dict[int, list[str]] = {}
    parts: dict[tuple[int, int], list[str]] = {}
    for name in names:
        v2 = _V2_NAME.fullmatch(name)
        if v2 is not None:
            whole[int(v2[1])] = [name]
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


def hinted_version(log_directory: str) -> int | None:
    """The version that `HINT` names; None if it names none, -1 if it cannot be read.

    The library passes over a hint that says nothing, not over one that is an error.
    """
    try:
        with open_file(os.path.join(log_directory, HINT)) as file:
            said = json.loads(file.read())["version"]
    except (FileNotFoundError, ValueError, LookupError, TypeError):
        return None
    except OSError:
        return -1
    return said if isinstance(said, int) else None


def hint_mark(log_directory: str) -> tuple[object, ...]:
    """What changes when somebody writes the hint, or the checkpoint that it names."""
    version = hinted_version(log_directory)
    names = HINT, f"{version or 0:020d}.checkpoint.parquet"
    return tuple(_mark(os.path.join(log_directory, name)) for name in names)


def _mark(path: str) -> tuple[int, int, int] | int | None:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    except OSError as error:  # it is there, and nobody can read it
        return error.errno
    return found.st_ino, found.st_mtime_ns, found.st_size


def read_checkpoint(
    log_directory: str,
    version: int,
    names: list[str],
    checksums: Mapping[str, Checksum],
) -> Commit:
    """The state at ``version``, told as one commit that adds everything.

    ``checksums`` are those that are known of its files. Raises FileNotFoundError when
    it was cleaned away, ValueError when it is damaged, lacks a sidecar, or is not what
    a checkpoint should be.
    """
    try:
        return _read(log_directory, version, names, checksums)
    except (FileNotFoundError, NotAsWritten):
        raise
    except Exception as error:  # an owner's tool may have written anything
        raise ValueError(f"checkpoint {version} cannot be read: {error!r}") from error


def is_of_checkpoint(name: str) -> bool:
    """Whether a file of the log is a checkpoint, or a part of one."""
    return bool(_NAME.fullmatch(name) or _V2_NAME.fullmatch(name))


def sidecars_of(log_directory: str, name: str) -> list[str]:
    """The names of the sidecars that a file of a checkpoint names. Raises ValueError
    where it is damaged."""
    path = os.path.join(log_directory, name)
    try:
        if name.endswith(".json"):
            named = _json_sidecars(_lines(path))
        else:
            named = _parquet_sidecars(path)
        return [os.path.basename(unquote(one)) for one in named]
    except Exception as error:  # an owner's tool may have written anything
        raise ValueError(f"{name} cannot be read: {error!r}") from error


def _read(
    log_directory: str,
    version: int,
    names: list[str],
    checksums: Mapping[str, Checksum],
) -> Commit:
    state = Commit(version, is_state=True)
    sidecars: list[str] = []
    for name in names:
        path = os.path.join(log_directory, name)
        if name.endswith(".json"):
            sidecars += _read_json(path, state)
        else:
            sidecars += _read_part(path, state, checksums.get(name))
    for name in map(unquote, sidecars):
        if os.path.basename(name) != name:
            raise ValueError(f"checkpoint {version} names the sidecar {name!r}")
        _read_sidecar(log_directory, name, names, state)
    if state.protocol is None or state.metadata is None:
        raise ValueError(f"checkpoint {version} lacks protocol or metaData")
    return state


def _read_sidecar(
    log_directory: str, name: str, named_by: Iterable[str], state: Commit
) -> None:
    """Add what a sidecar says. Raises FileNotFoundError where it was cleaned away with
    the checkpoint that names it, and ValueError where it alone is missing: no listing
    of the log will have another one."""
    try:
        _read_part(os.path.join(log_directory, SIDECARS, name), state)
    except FileNotFoundError:
        if all(os.path.exists(os.path.join(log_directory, one)) for one in named_by):
            raise ValueError(f"its sidecar {name} is missing") from None
        raise


def _read_json(path: str, state: Commit) -> list[str]:
    """Add what a V2 checkpoint in JSON says; the names of its sidecars."""
    text = _lines(path)
    part = parse_commit(state.version, text)
    state.adds += part.adds
    for removed, when_ms in part.removes.items():
        state.take_out(removed, when_ms)
    state.transactions |= part.transactions
    state.protocol = part.protocol or state.protocol
    state.metadata = part.metadata or state.metadata
    return _json_sidecars(text)


def _lines(path: str) -> bytes:
    with open_file(path) as file:
        return file.read()


def _json_sidecars(text: bytes) -> list[str]:
    actions = [json.loads(line) for line in text.split(b"\n") if line.strip()]
    return [one["sidecar"]["path"] for one in actions if one.get("sidecar")]


def _parquet_sidecars(path: str) -> list[str]:
    """Of all columns only that one is read."""
    import pyarrow.parquet as pq

    check_file(path)
    with pq.ParquetFile(path) as file:
        if "sidecar" not in file.schema_arrow.names:
            return []
        table = file.read(columns=["sidecar"], use_threads=False)
    return [body["path"] for body in _rows(table, "sidecar")]


def _read_part(path: str, state: Commit, known: Checksum | None = None) -> list[str]:
    """Add what a file in Parquet says; the names of its sidecars."""
    table = _table(path, known)
    for body, stats in zip(_rows(table, "add"), _stats_columns(table), strict=True):
        state.adds.append(data_file(body if body.get("stats") else body | stats))
    for body in _rows(table, "remove"):
        state.take_out(body["path"], int(body.get("deletionTimestamp") or 0))
    for body in _rows(table, "txn"):
        state.transactions[body["appId"]] = int(body["version"])
    for body in _rows(table, "protocol"):
        state.protocol = protocol_of(body)
    for body in _rows(table, "metaData"):
        state.metadata = metadata_of(body)
    return [body["path"] for body in _rows(table, "sidecar")]


def _table(path: str, known: Checksum | None) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    check_file(path)
    # What is verified is what is read, whatever the disk says another time.
    source = path if known is None else pa.BufferReader(read_verified(path, known))
    # Unlike read_table, a ParquetFile never looks at directories beside the file.
    with pq.ParquetFile(source) as file:
        return file.read(columns=list(_FIELDS), use_threads=False)


def _stats_columns(table: Any) -> Iterator[dict[str, Any]]:
    """For each ``add`` its statistics as columns say them, an owner's choice
    (``delta.checkpoint.writeStatsAsStruct``); nothing where they do not."""
    import pyarrow as pa

    held = _held(table, "add")
    count = 0 if held is None else len(held)
    if held is None or "stats_parsed" not in [field.name for field in held.type]:
        yield from repeat({}, count)
        return
    rows = _numbers(held, "numRecords") or [None] * count
    lacking = [
        _numbers(held, "nullCount", column) or [None] * count
        for column in ("offset", "timestamp")
    ]
    bounds = []
    for side in ("minValues", "maxValues"):
        offsets = _numbers(held, side, "offset") or [None] * count
        times = _numbers(held, side, "timestamp", kind=pa.timestamp("us", "UTC"))
        bounds.append(list(zip(offsets, times or [None] * count, strict=True)))
    for number, *nulls, low, high in zip(rows, *lacking, *bounds, strict=True):
        yield {
            "stats_columns": {
                "numRecords": number,
                "nullCount": {"offset": nulls[0], "timestamp": nulls[1]},
                "minValues": {"offset": low[0], "timestamp": low[1]},
                "maxValues": {"offset": high[0], "timestamp": high[1]},
            }
        }


def _numbers(held: Any, *path: str, kind: Any = None) -> list[int | None]:
    """A column of the parsed statistics; empty if there is none. Times in us."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = held
    for name in ("stats_parsed", *path):
        found = alike(name, [field.name for field in column.type])
        if len(found) != 1:
            return []
        column = pc.struct_field(column, found[0])
    if kind is not None:
        column = column.cast(kind, safe=False)
    values: list[int | None] = column.cast(pa.int64()).to_pylist()
    return values


def _rows(table: Any, action: str) -> Iterator[dict[str, Any]]:
    """The rows that hold this action, with the fields that matter."""
    import pyarrow.compute as pc

    held = _held(table, action)
    if held is None:
        return
    wanted = (*_FIELDS[action], "deletionVector")
    names = [field.name for field in held.type if field.name in wanted]
    values = [pc.struct_field(held, name).to_pylist() for name in names]
    for row in zip(*values, strict=True):
        yield dict(zip(names, row, strict=True))


def _held(table: Any, action: str) -> Any:
    """The column of an action without its nulls; None if there is none."""
    import pyarrow as pa

    if action not in table.column_names:
        return None
    column = table.column(action).combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks)
    return column.filter(column.is_valid())
