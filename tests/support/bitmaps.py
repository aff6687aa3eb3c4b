"""Deletion vectors as Delta's writers make them, for tests that need no Spark."""

import json
import os
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from lakehouse.files.deletion_vectors import Z85_LETTERS
from lakehouse.files.roaring import MAGIC
from lakehouse.log.actions import Vector
from lakehouse.log.delta_log import Snapshot, entry_path, load, read_entry
from tests.support.tables import Writer

Blocks = list[tuple[int, list[int]]]


def bitmap(numbers: Iterable[int], *, runs: bool = False) -> bytes:
    """The bytes of a Roaring bitmap of 64 bits; ``runs``: all containers are runs."""
    buckets = _blocks(sorted(numbers), 32)
    parts = [struct.pack("<IQ", MAGIC, len(buckets))]
    for high, low in buckets:
        parts += [struct.pack("<I", high), _bucket(_blocks(low, 16), runs)]
    return b"".join(parts)


def _blocks(numbers: Sequence[int], bits: int) -> Blocks:
    """High bits -> low bits."""
    mask = (1 << bits) - 1
    return [
        (high, [number & mask for number in group])
        for high, group in groupby(numbers, lambda number: number >> bits)
    ]


def _bucket(containers: Blocks, runs: bool) -> bytes:
    count = len(containers)
    if runs:
        head = struct.pack("<I", 12347 | (count - 1) << 16)
        head += b"\xff" * ((count + 7) // 8)
    else:
        head = struct.pack("<II", 12346, count)
    header = b"".join(
        struct.pack("<HH", high, len(low) - 1) for high, low in containers
    )
    data = [_runs(low) if runs else _container(low) for _, low in containers]
    begins, at = b"", len(head) + len(header) + 4 * count
    for one in data:
        begins += struct.pack("<I", at)
        at += len(one)
    if runs and count < 4:
        begins = b""
    return head + header + begins + b"".join(data)


def _container(low: list[int]) -> bytes:
    if len(low) <= 4096:
        return struct.pack(f"<{len(low)}H", *low)
    bits = bytearray(8192)
    for number in low:
        bits[number // 8] |= 1 << number % 8
    return bytes(bits)


def _runs(low: list[int]) -> bytes:
    runs = [
        [number for _, number in group]
        for _, group in groupby(enumerate(low), lambda pair: pair[1] - pair[0])
    ]
    pairs = [part for run in runs for part in (run[0], len(run) - 1)]
    return struct.pack(f"<H{len(pairs)}H", len(runs), *pairs)


def z85(data: bytes) -> str:
    """Text of bytes, of which there are a multiple of four."""
    letters = []
    for (word,) in struct.iter_unpack(">I", data):
        letters += [Z85_LETTERS[word // 85**n % 85] for n in (4, 3, 2, 1, 0)]
    return "".join(letters)


def inline(numbers: Sequence[int], *, runs: bool = False) -> Vector:
    """A vector that stands in the log."""
    data = bitmap(numbers, runs=runs)
    padded = data + bytes(-len(data) % 4)
    return Vector("i", z85(padded), None, len(data), len(numbers))


def stored(root: str, numbers: Sequence[int], uuid: UUID, prefix: str = "") -> Vector:
    """A vector in a file of its own, below the table at ``root``."""
    data = bitmap(numbers)
    framed = struct.pack(">I", len(data)) + data + struct.pack(">I", zlib.crc32(data))
    os.makedirs(os.path.join(root, prefix), exist_ok=True)
    with open(os.path.join(root, prefix, f"deletion_vector_{uuid}.bin"), "wb") as file:
        file.write(b"\x01" + framed)
    return Vector("u", prefix + z85(uuid.bytes), 1, len(data), len(numbers))


def delete_rows(writer: Writer, deleted: dict[str, Sequence[int] | Vector]) -> None:
    """Commit what an owner's DELETE does: of each file, by path, these rows go, by
    their numbers in it; or those that a vector names."""
    table = load(writer.path)
    before = {name: body for body in _adds(table) if (name := body["path"]) in deleted}
    actions: list[dict[str, Any]] = []
    if not table.protocol.reader_features:
        features = ["deletionVectors"]
        actions.append({"protocol": _PROTOCOL | {"readerFeatures": features}})
    for path, named in deleted.items():
        vector = named if isinstance(named, Vector) else inline(named)
        body = before[path]
        gone = {"path": path, "deletionTimestamp": 1, "dataChange": True}
        if "deletionVector" in body:
            gone["deletionVector"] = body["deletionVector"]
        now = body | {"deletionVector": vector.body}
        actions += [{"remove": gone}, {"add": now}]
    text = "\n".join(map(json.dumps, actions))
    Path(entry_path(writer.path, table.version + 1)).write_text(text)


_PROTOCOL: Final = {
    "minReaderVersion": 3,
    "minWriterVersion": 7,
    "writerFeatures": ["appendOnly", "invariants", "deletionVectors"],
}


def _adds(table: Snapshot) -> Iterator[dict[str, Any]]:
    for version in range(table.version + 1):
        for line in read_entry(table.path, version).splitlines():
            body = json.loads(line).get("add")
            if body is not None:
                yield body
