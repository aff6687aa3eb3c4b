"""Bytes of segment files that are not as they were written."""

import re
from pathlib import Path

RECORDS_AT = 61
"""Where in a batch its records begin."""


def segment_with(wal: Path, content: bytes) -> Path:
    """The one segment file of a log's directory that holds these bytes. The log makes
    others meanwhile: a file that is not ready yet (``.new``) is renamed at any time."""
    [path] = [path for path in wal.glob("*.log") if content in path.read_bytes()]
    return path


def tear_batch(path: Path, base: int) -> None:
    """Change a bit of the batch at offset ``base``, and one of its entry's header: if
    no footer does, nothing says any more whose it was."""
    data = bytearray(path.read_bytes())
    head = re.escape(base.to_bytes(8, "big")) + b".{8}\x02"  # length, epoch, magic
    [at] = [match.start() for match in re.finditer(head, data, re.DOTALL)]
    data[at - 4] ^= 1
    data[at + RECORDS_AT] ^= 1
    path.write_bytes(data)
