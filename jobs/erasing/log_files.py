"""What lies in the directory of a table's log, each file read as what it is.

The problem: what was to be erased may be quoted in entries and checkpoints, in the
files with which Delta's writers describe a version or name a checkpoint, and in what
was begun, torn or put aside, under any name; and who passes over a file that he does
not know says of it that it holds nothing. The idea: no file is passed over by its name.
It is what its bytes are: Parquet, or lines. A line that is JSON says actions, in an
entry and in what describes a version alike; one that is not is text. What is none of
these cannot be searched, and is given out as just that.

The price: whole checkpoints are read, with all that they say.
"""

import codecs
import json
import os
from collections.abc import Iterator
from typing import Any, BinaryIO, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse.log.checksums import NAME as MEASURED
from lakehouse.regular import NotAFile, open_file

TEXT: Final = "text"
"""Of a line that is no JSON: torn, or of whatever else."""
UNREADABLE: Final = "unreadable"
_PARQUET: Final = b"PAR1"
_HADOOP: Final = b"crc\0"
"""Its checksums of a file beside, which say nothing else."""
_ROWS: Final = 1_000
_KINDS: Final = {
    "allFiles": "add",
    "metadata": "metaData",
    "setTransactions": "txn",
    "sidecarFiles": "sidecar",
}
"""What the descriptions of versions (``.crc``) and of checkpoints call actions."""


class Said(NamedTuple):
    """``file``: its path below the log's. ``kind``: the name of an action, or of
    another field, with its ``body``; `TEXT`, and a line; `UNREADABLE`, and why."""

    file: str
    kind: str
    body: Any


def said_in(log: str) -> Iterator[Said]:
    """All that the files in the directory of a log say. What is no file, as a FIFO,
    and what was cleaned away meanwhile, says nothing."""
    failed = list[OSError]()
    for directory, below, names in os.walk(log, onerror=failed.append):
        links = [
            name for name in below if os.path.islink(os.path.join(directory, name))
        ]
        for name in sorted(links):
            path = os.path.relpath(os.path.join(directory, name), log)
            yield Said(path, UNREADABLE, "it is a link to a directory")
        for name in sorted(names):
            yield from _of_file(log, os.path.join(directory, name))
    for error in failed:
        if not isinstance(error, FileNotFoundError):
            yield Said(os.path.relpath(error.filename, log), UNREADABLE, str(error))


def _of_file(log: str, path: str) -> Iterator[Said]:
    name = os.path.relpath(path, log)
    if name.removesuffix(".tmp") == MEASURED:  # ours, of sizes and checksums
        return
    try:
        with open_file(path) as file:
            for kind, body in _of_bytes(name, file):
                yield Said(name, kind, body)
    except (FileNotFoundError, NotAFile):
        return
    except (OSError, ValueError, pa.ArrowException) as error:
        yield Said(name, UNREADABLE, str(error))


def _of_bytes(name: str, file: BinaryIO) -> Iterator[tuple[str, Any]]:
    head = file.read(len(_PARQUET))
    file.seek(0)
    if head in {b"", _HADOOP}:
        return
    if head == _PARQUET or ".parquet" in name:
        yield from _of_parquet(file)
        return
    for line in file:
        yield from _of_line(line)


def _of_parquet(file: BinaryIO) -> Iterator[tuple[str, Any]]:
    with pq.ParquetFile(file) as checkpoint:
        for batch in checkpoint.iter_batches(_ROWS, use_threads=False):
            for row in batch.to_pylist():
                yield from ((kind, said) for kind, said in row.items() if said)


def _of_line(line: bytes) -> list[tuple[str, Any]]:
    try:
        return list(_of_json(json.loads(line)))
    except (ValueError, RecursionError):
        pass
    if b"\0" in line.strip(b"\0\r\n"):  # at its end: never written
        return [(UNREADABLE, "there are zeros in it")]
    try:  # where it was torn, there may be half a character
        return [(TEXT, codecs.getincrementaldecoder("utf-8")().decode(line))]
    except UnicodeDecodeError as error:
        return [(UNREADABLE, str(error))]


def _of_json(said: Any) -> Iterator[tuple[str, Any]]:
    """The actions in an entry's line, or in what describes a version or checkpoint."""
    if not isinstance(said, dict):
        yield "", said
        return
    for name, body in said.items():
        for one in body if isinstance(body, list) else [body]:
            if name in {"v2Checkpoint", "nonFileActions"}:
                yield from _of_json(one)
            elif name in {TEXT, UNREADABLE}:
                yield "", {name: one}
            else:
                yield _KINDS.get(name, str(name)), one
