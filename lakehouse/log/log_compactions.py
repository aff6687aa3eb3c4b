"""Log compaction files: copies of entries, which readers take in place of these.

The problem: ``X.Y.compacted.json`` has the actions of the entries X to Y, and Spark and
Delta's kernel look at none of them where it is. So it has to go with any that is put
aside, filled in or gone; and its name cannot be guessed, as that of a checksum can,
while to list a log of half a million entries takes a fifth of a second. The idea: one
that reaches beyond the last entry is there only if an entry came and went; so before a
commit of ours nothing is listed if nobody else changed the directory since the last
look.

The price: a listing behind each act of somebody else's. One that begins and ends while
our entry is put, or in the same tick of the file system's clock, is not seen.

Source: the Delta transaction log protocol, "Log Compaction Files"; Hadoop's
``ChecksumFileSystem``.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from lakehouse.log.delta_log import LOG_DIRECTORY, stamp

_NAME: Final = re.compile(r"(\.?)(\d{20})\.(\d{20})\.compacted\.json(\.crc)?")


def span_of(name: str) -> tuple[int, int] | None:
    """The first and the last version of a log compaction file, or of the one that this
    is Hadoop's checksum of; None: it is neither."""
    found = _NAME.fullmatch(name)
    if found is None or bool(found[1]) != bool(found[4]):
        return None
    return int(found[2]), int(found[3])


def present(path: str) -> Iterator[tuple[str, int, int]]:
    """Name, first and last version of each that is there, and of checksums of them."""
    try:
        names = os.listdir(os.path.join(path, LOG_DIRECTORY))
    except (FileNotFoundError, NotADirectoryError):
        return
    for name in names:
        if span := span_of(name):
            yield name, *span


def covering(path: str, version: int) -> list[str]:
    """The names of those that have the actions of a version."""
    return [name for name, first, last in present(path) if first <= version <= last]


def reaching(path: str, version: int) -> list[str]:
    """The names of those that reach to a version, which is the table's next, or
    beyond."""
    looked_at = stamp(path)
    if _looked_at.get(path) == looked_at:
        return []
    found = [name for name, _, last in present(path) if last >= version]
    if not found:
        _looked_at[path] = looked_at
    return found


@contextmanager
def unseen(path: str) -> Iterator[None]:
    """What is done inside to the log's directory is ours, and makes no look due."""
    was_looked_at = _looked_at.get(path) == stamp(path)
    yield
    if was_looked_at:
        _looked_at[path] = stamp(path)


_looked_at: dict[str, int] = {}
"""Table -> the time of its log's directory when none reached to the next version."""
