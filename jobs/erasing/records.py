"""``lakelog_erasures``: what was erased, when, and what was proven; a Delta table.

The problem: whoever has to answer for an erasure must be able to show it, years later,
with the tools that he asks everything else with; and the proof must not say what was
erased. The idea: a table in the warehouse beside those of the topics, with a row for
each erasure that ran to its end. Of the key or the expression it has a digest: scrypt,
so that guessing costs, salted with the topic's id, so that who knows both can ask
whether a key was erased. The same digest stands in the table's log beside what left it
(`lakehouse.properties.ERASED`), so that a second run counts what one that was killed
had done.

No topic's table can be where this one is: their names begin with no dot.
"""

import getpass
import hashlib
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import deltalake
import pyarrow as pa
from deltalake.exceptions import TableNotFoundError

from lakehouse.log.actions import REQUEST, parse_commit
from lakehouse.log.delta_log import entry_versions, read_entry
from lakehouse.properties import ERASED

DIRECTORY: Final = ".lakelog_erasures"
_SCRYPT: Final = {"n": 1 << 14, "r": 8, "p": 1, "dklen": 32}
_FIELDS: Final[list[tuple[str, Any]]] = [
    ("erased_at", pa.timestamp("us", tz="UTC")),
    ("topic", pa.string()),
    ("topic_id", pa.string()),
    ("asked_by", pa.string()),
    ("asked_as", pa.string()),
    ("digest", pa.string()),
    ("rows", pa.int64()),
    ("rows_by_partition", pa.map_(pa.int32(), pa.int64())),
    ("files_deleted", pa.int64()),
    ("version_before", pa.int64()),
    ("version_after", pa.int64()),
    ("is_proven", pa.bool_()),
    ("proven", pa.list_(pa.string())),
    ("left", pa.list_(pa.string())),
]
_SCHEMA: Final = pa.schema(_FIELDS)


class Erasure(NamedTuple):
    """A row. ``asked_as``: "key" or "where"; ``proven``: where nothing was found any
    more; ``left``: sentences on where something may be."""

    topic: str
    topic_id: str
    asked_as: str
    digest: str
    rows: Mapping[int, int]
    files_deleted: int
    version_before: int
    version_after: int
    proven: Sequence[str]
    left: Sequence[str]


def digest_of(topic_id: str, asked_as: str, what: bytes) -> str:
    """64 hexadecimal digits: scrypt (n 16384, r 8, p 1) of ``key:`` or ``where:`` and
    the bytes, salted with the 16 bytes of the topic's id."""
    secret = asked_as.encode() + b":" + what
    return hashlib.scrypt(secret, salt=bytes.fromhex(topic_id), **_SCRYPT).hex()


def place(data_dir: Path) -> str:
    """Where the table lies."""
    return str(data_dir / "tables" / DIRECTORY)


def _who() -> str:
    """The user of this process; by number where it has no name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def write(data_dir: Path, done: Erasure) -> None:
    """Add a row; the table is made with the first. Raises DeltaError, OSError."""
    row = {
        "erased_at": datetime.now(UTC),
        "topic": done.topic,
        "topic_id": done.topic_id,
        "asked_by": _who(),
        "asked_as": done.asked_as,
        "digest": done.digest,
        "rows": sum(done.rows.values()),
        "rows_by_partition": list(done.rows.items()),
        "files_deleted": done.files_deleted,
        "version_before": done.version_before,
        "version_after": done.version_after,
        "is_proven": not done.left,
        "proven": list(done.proven),
        "left": list(done.left),
    }
    table = pa.Table.from_pylist([row], schema=_SCHEMA)
    deltalake.write_deltalake(place(data_dir), table, mode="append")


def last_version(data_dir: Path, digest: str) -> int:
    """The table version up to which rows tell of this request; -1: none does."""
    try:
        table = deltalake.DeltaTable(place(data_dir))
    except TableNotFoundError:
        return -1
    found = table.to_pyarrow_table(columns=["digest", "version_after"]).to_pylist()
    return max((r["version_after"] for r in found if r["digest"] == digest), default=-1)


def erased_since(root: str, digest: str, version: int) -> dict[int, int]:
    """Partition -> rows that commits behind this version erased for this request."""
    rows = dict[int, int]()
    for found in entry_versions(root):
        text = read_entry(root, found) if found > version else b""
        if ERASED.encode() not in text or digest.encode() not in text:
            continue
        commit = parse_commit(found, text)
        said = commit.info.get(ERASED)
        if isinstance(said, dict) and said.get(REQUEST) == digest:
            for partition, erased in commit.erased.items():
                rows[partition] = rows.get(partition, 0) + erased.rows
    return dict(sorted(rows.items()))
