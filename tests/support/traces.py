"""Where bytes stand in a data directory, whatever they are wrapped in.

As they are in any file; in rows of Parquet files, which are decoded; and in record
batches wherever one lies in a segment file, live or left behind, decompressed.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from broker.records.batch import checksum, read_header
from tests.support.batches import read_batch

MAGIC_AT, LENGTH_AT, PREFIX, SMALLEST = 16, 8, 12, 61


def traces(data_dir: Path, needles: Iterable[bytes]) -> dict[str, list[bytes]]:
    """File below the directory -> those of these that stand in it."""
    wanted = list(needles)
    found = {}
    for path in sorted(data_dir.rglob("*")):
        if not path.is_file():
            continue
        hits = {n for text in texts(path) for n in wanted if n in text}
        if hits:
            found[str(path.relative_to(data_dir))] = sorted(hits)
    return found


def texts(path: Path) -> Iterator[bytes]:
    """All that a file says."""
    data = path.read_bytes()
    yield data
    if path.name.endswith(".parquet"):
        for column in pq.read_table(path).to_pydict().values():
            yield b"\n".join(_flat(column))
    elif path.parent.name == "wal":
        yield from batches(data)


def batches(data: bytes) -> Iterator[bytes]:
    """The records of every whole batch that lies anywhere in these bytes."""
    view = np.frombuffer(data, np.uint8)
    for at in np.flatnonzero(view[MAGIC_AT:] == 2).tolist():
        size = PREFIX + int.from_bytes(data[at + LENGTH_AT : at + PREFIX], "big")
        if not SMALLEST <= size <= len(data) - at:
            continue
        batch = bytearray(data[at : at + size])
        if checksum(batch) == read_header(batch).crc:
            rows = [(r.key, r.value, r.headers) for r in read_batch(batch)]
            yield b"\n".join(_flat(rows))


def _flat(value: Any) -> Iterator[bytes]:
    if isinstance(value, bytes):
        yield value
    elif isinstance(value, str):
        yield value.encode()
    elif isinstance(value, dict):
        yield from _flat(list(value.values()))
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _flat(one)
